"""Independent formulas, in 50 digits or more, for the distributions under test."""

import math

import mpmath as mp
import scipy.stats

from skdptune.run_counts import (
    AtMost,
    BetaBinomial,
    Binomial,
    Finite,
    Fixed,
    FromScipy,
    Geometric,
    Logarithmic,
    Poisson,
    TruncatedNegativeBinomial,
    ZeroTruncatedPoisson,
)

mp.mp.dps = 50

SMALL = [
    Poisson(10),
    Poisson(0.3),
    ZeroTruncatedPoisson(3),
    ZeroTruncatedPoisson(1.0001),
    TruncatedNegativeBinomial(10, 2),
    TruncatedNegativeBinomial(1.5, 0.5),
    TruncatedNegativeBinomial(4, -0.5),
    TruncatedNegativeBinomial(3, -0.9),
    TruncatedNegativeBinomial(5, 1e-9),
    TruncatedNegativeBinomial(5, -1e-12),
    TruncatedNegativeBinomial(12, 300),
    TruncatedNegativeBinomial(1.0001, 2),
    TruncatedNegativeBinomial(1, 2),
    Logarithmic(10),
    Geometric(10),
    Binomial(20, 0.4),
    Binomial(5, 1.0),
    Binomial(1, 0.7),
    BetaBinomial(30, 0.5, 2.5),
    Fixed(1),
    Fixed(7),
    Finite([0.1, 0.2, 0.0, 0.7]),
    Finite({2: 0.25, 40: 0.75}),
    AtMost(Logarithmic(10), 25),
    AtMost(Poisson(4), 6),
    AtMost(BetaBinomial(30, 2, 2), 12),
    FromScipy(scipy.stats.poisson(6)),
    FromScipy(scipy.stats.nbinom(2, 0.3, loc=1)),
    FromScipy(scipy.stats.logser(0.9)),
    FromScipy(scipy.stats.rv_discrete(values=([1, 5], [0.5, 0.5]))),
    FromScipy(scipy.stats.zipf(3.5)),
]

LARGE = [
    Poisson(1e6),
    ZeroTruncatedPoisson(1e6),
    TruncatedNegativeBinomial(1e6, 2),
    TruncatedNegativeBinomial(1e5, -0.5),
    TruncatedNegativeBinomial(1e6, 1e6),
    TruncatedNegativeBinomial(1e6, 1e-7),
    Logarithmic(1e6),
    Logarithmic(1e4),
    Geometric(1e6),
    Binomial(10**7, 0.1),
    Fixed(10**6),
]


def name_of(run_count):
    text = repr(run_count)
    return text if len(text) < 60 else text[:57] + "..."


def _family(odds, eta):
    c, eta = mp.mpf(odds), mp.mpf(eta)
    if odds == 0:
        return lambda x: x, lambda x: mp.mpf(1), lambda x: mp.mpf(0)
    if abs(eta) < mp.mpf(10) ** -50:
        t = mp.log1p(c)
        return (
            lambda x: 1 - mp.log1p(c * (1 - x)) / t,
            lambda x: c / (1 + c * (1 - x)) / t,
            lambda x: c**2 / (1 + c * (1 - x)) ** 2 / t,
        )
    norm = 1 - (1 + c) ** -eta
    return (
        lambda x: 1 - (1 - (1 + c * (1 - x)) ** -eta) / norm,
        lambda x: eta * c * (1 + c * (1 - x)) ** (-eta - 1) / norm,
        lambda x: eta * (eta + 1) * c**2 * (1 + c * (1 - x)) ** (-eta - 2) / norm,
    )


def _poisson(rate, truncated):
    rate = mp.mpf(rate)
    norm = -mp.expm1(-rate) if truncated else mp.mpf(1)
    zero = mp.exp(-rate) if truncated else mp.mpf(0)
    return (
        lambda x: (mp.exp(-rate * (1 - x)) - zero) / norm,
        lambda x: rate * mp.exp(-rate * (1 - x)) / norm,
        lambda x: rate**2 * mp.exp(-rate * (1 - x)) / norm,
    )


def _binomial(n, p):
    p = mp.mpf(p)
    q = 1 - p
    return (
        lambda x: (q + p * x) ** n,
        lambda x: n * p * (q + p * x) ** (n - 1),
        lambda x: n * (n - 1) * p**2 * (q + p * x) ** max(n - 2, 0),
    )


def _table(pairs):
    pairs = [(k, mp.mpf(p)) for k, p in pairs if p > 0]
    total = mp.fsum(p for _, p in pairs)
    return (
        lambda x: mp.fsum(p * x**k for k, p in pairs) / total,
        lambda x: mp.fsum(p * k * x ** (k - 1) for k, p in pairs if k > 0) / total,
        lambda x: mp.fsum(p * k * (k - 1) * x ** (k - 2) for k, p in pairs if k > 1) / total,
    )


def exact_pmf(run_count, last):
    """P(K = k), k = 0..last, from the textbook definition and the object's own parameters."""
    kind = type(run_count).__name__
    ks = range(last + 1)
    if kind == "Poisson":
        rate = mp.mpf(run_count.mean)
        return [mp.exp(-rate) * rate**k / mp.factorial(k) for k in ks]
    if kind == "ZeroTruncatedPoisson":
        rate = mp.mpf(run_count.rate)
        return [mp.mpf(0)] + [rate**k / mp.factorial(k) / mp.expm1(rate) for k in ks[1:]]
    if hasattr(run_count, "odds"):
        return _paper_definition(run_count, last)
    if kind == "Binomial":
        p = mp.mpf(run_count.p)
        n = run_count.n
        return [mp.binomial(n, k) * p**k * (1 - p) ** max(n - k, 0) for k in ks]
    if kind == "BetaBinomial":
        n, a, b = run_count.n, mp.mpf(run_count.a), mp.mpf(run_count.b)
        inside = [mp.binomial(n, k) * mp.beta(k + a, n - k + b) / mp.beta(a, b) for k in range(n + 1)]
        return (inside + [mp.mpf(0)] * last)[: last + 1]
    if kind == "Fixed":
        return [mp.mpf(int(k == run_count.k)) for k in ks]
    if kind == "Finite":
        values = dict(run_count.pairs)
        total = mp.fsum(values.values())
        return [mp.mpf(values.get(k, 0.0)) / total for k in ks]
    if kind == "AtMost":
        base = exact_pmf(run_count.base, run_count.m)
        total = mp.fsum(base)
        return [base[k] / total if k <= run_count.m else mp.mpf(0) for k in ks]
    values = [mp.mpf(float(run_count.frozen.pmf(k))) for k in ks]
    return values


def _paper_definition(run_count, last):
    """arXiv 2110.03620v2, Definition 1, at the gamma in use."""
    c, eta = mp.mpf(run_count.odds), mp.mpf(run_count.eta)
    if run_count.odds == 0:
        return [mp.mpf(int(k == 1)) for k in range(last + 1)]
    gamma = 1 / (1 + c)
    out = [mp.mpf(0)]
    for k in range(1, last + 1):
        if eta == 0:
            out.append((1 - gamma) ** k / (k * mp.log(1 / gamma)))
        else:
            product = mp.fprod((j + eta) / (j + 1) for j in range(k))
            out.append((1 - gamma) ** k / (gamma**-eta - 1) * product)
    return out


def exact_functions(run_count):
    """f, f' and f'' as functions of an mpmath number x."""
    kind = type(run_count).__name__
    if hasattr(run_count, "odds"):
        return _family(run_count.odds, run_count.eta)
    if kind == "Poisson":
        return _poisson(run_count.mean, False)
    if kind == "ZeroTruncatedPoisson":
        return _poisson(run_count.rate, True)
    if kind == "Binomial":
        return _binomial(run_count.n, run_count.p)
    if kind == "Fixed":
        return _binomial(run_count.k, 1.0)
    if kind == "FromScipy":
        name = run_count.frozen.dist.name
        if name == "zipf":
            a = mp.mpf(run_count.frozen.kwds.get("a", (run_count.frozen.args or (0,))[0]))
            z = mp.zeta(a)
            return (
                lambda x: mp.polylog(a, x) / z,
                lambda x: mp.polylog(a - 1, x) / x / z if x else 1 / z,
                lambda x: (mp.polylog(a - 2, x) - mp.polylog(a - 1, x)) / x**2 / z
                if x else 2 * mp.mpf(2) ** -a / z,
            )
        return _table(list(enumerate(exact_pmf(run_count, 700))))
    top = run_count.support_max
    return _table(list(enumerate(exact_pmf(run_count, top))))


def log_or_minus_inf(value):
    return float(mp.log(value)) if value > 0 else -math.inf
