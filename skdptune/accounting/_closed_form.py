"""Closed forms for best-of-K: Papernot and Steinke, arXiv 2110.03620v2, and their special cases.

Paper <-> code: lambda = ``orders``, epsilon(lambda) = ``rdp``, eta and gamma as in Definition 1,
mu = E[K] = ``mean``. The single run's curve must hold in both directions. Notation of the proofs: w, r
and s as in ``_rdp_region``, where the bounds (1) and (2) on which they rest are proved.

**Theorem 2** (truncated negative binomial, eta > -1). Here P(K=0) = 0 and
w(r) = E[K] (gamma / (gamma + (1-gamma) r))^{1+eta}. Put r' = gamma + (1-gamma) r, s' likewise: the masses
of the same event after mixing in a certain outcome with probability gamma, so they obey the curve too,
s' <= (r' e^{D})^{1 - 1/l} at any order l, and r' >= gamma. Hence
w(r)^a w(s)^{1-a} = E[K] (gamma/r')^{1+eta} (s'/r')^{(a-1)(1+eta)} and s'/r' <= e^{(1-1/l) D} gamma^{-1/l}.

**Theorem 6** (Poisson). w(r) = mu e^{-mu r}, so w(r)^a w(s)^{1-a} = mu e^{mu (a-1) (s - r a/(a-1))}, and
s - e^h r <= delta(h) for every h with e^h <= a/(a-1). The paper drops P(K=0) = e^{-mu}; by (2) that is
right whenever mu >= 1 and not known to be otherwise.

**Pure DP.** All orders: log w(r) - log w(s) <= (1+eta) log(s'/r') <= (1+eta) epsilon, so
(2+eta) epsilon; Poisson: epsilon + mu (s - r) <= epsilon + mu tanh(epsilon/2), as total variation is at
most tanh(epsilon/2).

**zCDP.** Theorem 2 with rho lambda for the curve and the best real l >= 1, l = sqrt(log(1/gamma)/rho).

**Approximate DP.** A run is, with probability 1 - delta_0 and on both sides, a run of a law that obeys
the curve; else anything. The coins are independent of the runs' count, so all runs are good with
probability f(1 - delta_0) on both sides, and given that, K has law p_k (1 - delta_0)^k / f(1 - delta_0).
So best-of-K obeys the bound for *that* count outside an event of mass 1 - f(1 - delta_0). For the
truncated negative binomial it is the same family with a larger gamma, for Poisson a smaller mean:
their bounds are no larger (with (2), also where the smaller mean falls below 1), so the original
parameters are used.

**Capped K.** With b = P(K > m), A = (1-b) A_m + b R for the search A_m with K conditioned on K <= m.
For every set S, A_m(S) <= A(S)/(1-b) and A'_m(S) >= (A'(S) - b)/(1-b), so
delta_m(eps) <= (delta(eps) + e^eps b) / (1-b).
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from skdptune._exceptions import PricingError
from skdptune.run_counts import (
    AtMost,
    Geometric,
    Logarithmic,
    Poisson,
    TruncatedNegativeBinomial,
    ZeroTruncatedPoisson,
)

__all__ = [
    "PoissonForm",
    "TruncatedNegativeBinomialForm",
    "closed_form",
    "has_log_convex_weight",
    "least_above",
    "poisson_rdp",
    "truncated_negative_binomial_rdp",
    "truncated_negative_binomial_zcdp",
]


def _delta_hat(orders, rdp, epsilon):
    """Smallest delta(epsilon) of an RDP curve, in both directions of the two neighbours.

    Reference: Canonne, Kamath and Steinke, arXiv 2004.00010v4, Proposition 12, and
    delta <= sqrt(1 - e^-KL) (Bretagnolle and Huber).
    """
    rdp = np.maximum(rdp, 0.0)
    with np.errstate(divide="ignore"):
        by_divergence = 0.5 * np.log(-np.expm1(-rdp))  # log sqrt(1 - e^-KL), KL <= rdp
    steep = orders > 1.01
    a, value = orders[steep], rdp[steep]
    by_moment = (a - 1.0) * (value - epsilon + np.log1p(-1.0 / a)) - np.log(a)
    log_delta = min(by_divergence.min(initial=0.0), by_moment.min(initial=0.0))
    return math.exp(log_delta)


def truncated_negative_binomial_rdp(orders, rdp, *, mean, gamma, eta):
    """Theorem 2 over a common set of orders.

    Parameters
    ----------
    orders : array_like (n_orders,), at least 1
    rdp : array_like (n_orders,)
        Of the single run, nats.
    mean, gamma, eta : float
        E[K] >= 1, gamma in (0, 1], eta > -1, of one distribution.

    Returns
    -------
    ndarray (n_orders,)
        Of the search; at each order the least of the values at it and at larger ones.

    References
    ----------
    arXiv 2110.03620v2, Theorem 2 (epsilon-hat taken at the best of ``orders``).

    Examples
    --------
    >>> import numpy as np
    >>> orders = np.array([2.0, 8.0, 32.0])
    >>> value = truncated_negative_binomial_rdp(orders, orders / 18, mean=10.0, gamma=0.1, eta=1)
    >>> np.round(value, 4)
    array([2.1268, 2.1268, 3.2055])
    """
    orders, rdp = np.asarray(orders, dtype=float), np.asarray(rdp, dtype=float)
    usable = (orders >= 1.0) & np.isfinite(rdp)
    if not usable.any():
        return np.full(orders.shape, np.inf)
    inverse = 1.0 / orders[usable]
    constant = (1.0 + eta) * np.min((1.0 - inverse) * rdp[usable] - math.log(gamma) * inverse)
    value = np.full(orders.shape, np.inf)
    above = usable & (orders > 1.0)
    value[above] = rdp[above] + math.log(mean) / (orders[above] - 1.0) + constant
    return least_above(orders, value)


def least_above(orders, value):
    """Renyi divergence increases with the order: the least value at this or a larger order."""
    rank = np.argsort(-orders, kind="stable")
    result = np.empty_like(value)
    result[rank] = np.minimum.accumulate(value[rank])
    return result


def poisson_rdp(orders, rdp, *, mean, epsilon_hat=None, delta_hat=None):
    """Theorem 6 over a common set of orders.

    Parameters
    ----------
    orders, rdp : array_like (n_orders,)
        Of the single run, nats.
    mean : float, at least 1
    epsilon_hat, delta_hat : float or None
        A known (epsilon-hat, delta-hat) guarantee of the single run; by default the best that the
        curve implies at e^epsilon-hat = 1 + 1/(order - 1).

    Returns
    -------
    ndarray (n_orders,)

    Raises
    ------
    PricingError
        If ``mean`` is below 1, or e^epsilon-hat exceeds 1 + 1/(order - 1) at an order asked for.

    References
    ----------
    arXiv 2110.03620v2, Theorem 6.

    Examples
    --------
    >>> import numpy as np
    >>> orders = np.array([2.0, 8.0, 32.0])
    >>> np.round(poisson_rdp(orders, orders / 18, mean=10.0), 4)
    array([2.4998, 3.218 , 4.5585])
    """
    if not mean >= 1.0:
        raise PricingError(_poisson_mean_sentence(mean))
    orders, rdp = np.asarray(orders, dtype=float), np.asarray(rdp, dtype=float)
    usable = (orders > 1.0) & np.isfinite(rdp)
    result = np.full(orders.shape, np.inf)
    a = orders[usable]
    limit = np.log1p(1.0 / (a - 1.0))
    if epsilon_hat is None:
        basis = (orders >= 1.0) & np.isfinite(rdp)
        share = np.array([_delta_hat(orders[basis], rdp[basis], h) for h in limit])
    elif np.any(epsilon_hat > limit * (1.0 + 1e-12)):
        raise PricingError(
            f"Theorem 6 needs exp(epsilon_hat) <= 1 + 1/(order - 1), so epsilon_hat at most "
            f"{limit.min():.6g} at order {a.max():g}; got {epsilon_hat:.6g}: use smaller orders or "
            'method="rdp".'
        )
    else:
        share = np.full(a.shape, float(delta_hat))
    result[usable] = rdp[usable] + mean * share + math.log(mean) / (a - 1.0)
    return result


def truncated_negative_binomial_zcdp(orders, rho, *, mean, gamma, eta):
    """Theorem 2 for a rho-zCDP run: the form with two branches.

    Parameters
    ----------
    orders : array_like (n_orders,)
    rho : float
    mean, gamma, eta : float

    Returns
    -------
    ndarray (n_orders,)
        ``inf`` at orders <= 1.

    Examples
    --------
    >>> truncated_negative_binomial_zcdp([2.0], 0.1, mean=1.0, gamma=1.0, eta=1)
    array([0.2])
    """
    orders = np.asarray(orders, dtype=float)
    log_mean, log_inverse = math.log(mean), -math.log(gamma)
    if log_inverse <= rho:  # the best l would be below 1: l = 1 leaves log(1/gamma)
        constant = (1.0 + eta) * log_inverse + rho
    else:
        constant = 2.0 * (1.0 + eta) * math.sqrt(rho * log_inverse) - eta * rho
    # rho lambda + log(mean)/(lambda - 1) is least at lambda = 1 + sqrt(log(mean)/rho); below it the
    # value there holds, since the divergence increases with the order.
    turn = math.sqrt(log_mean / rho) if rho > 0.0 else math.inf
    excess = np.maximum(orders - 1.0, turn) if log_mean > 0.0 else orders - 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.where(np.isinf(excess), 0.0, log_mean / excess)
        value = np.where(rho > 0.0, rho * excess, 0.0) + tail + constant
    return np.where(orders > 1.0, value, np.inf)


def _poisson_mean_sentence(mean):
    return (
        f"the closed form for Poisson needs a mean of at least 1; got {mean:g}: raise the mean or use "
        'method="rdp", which prices K = 0.'
    )


@dataclass(frozen=True)
class TruncatedNegativeBinomialForm:
    """Closed forms of one truncated negative binomial."""

    mean: float
    gamma: float
    eta: float
    cap_mass: float = 0.0

    def rdp(self, orders, rdp):
        """Theorem 2 (see :func:`truncated_negative_binomial_rdp`)."""
        return truncated_negative_binomial_rdp(
            orders, rdp, mean=self.mean, gamma=self.gamma, eta=self.eta
        )

    def zcdp(self, orders, rho):
        """The form with two branches (see :func:`truncated_negative_binomial_zcdp`)."""
        return truncated_negative_binomial_zcdp(
            orders, rho, mean=self.mean, gamma=self.gamma, eta=self.eta
        )

    def pure(self, epsilon):
        """(2 + eta) epsilon."""
        return (2.0 + self.eta) * epsilon


@dataclass(frozen=True)
class PoissonForm:
    """Closed forms of a Poisson count with mean at least 1."""

    mean: float
    cap_mass: float = 0.0

    def rdp(self, orders, rdp):
        """Theorem 6 (see :func:`poisson_rdp`)."""
        return poisson_rdp(orders, rdp, mean=self.mean)

    def zcdp(self, orders, rho):
        """Theorem 6 at the orders asked for; the paper has no shorter form."""
        return poisson_rdp(orders, rho * np.asarray(orders, dtype=float), mean=self.mean)

    def pure(self, epsilon):
        """Epsilon + mean * tanh(epsilon / 2)."""
        return epsilon + self.mean * math.tanh(0.5 * epsilon)


@functools.singledispatch
def closed_form(run_count):
    """Return the closed form of a run count.

    Parameters
    ----------
    run_count : RunCount

    Returns
    -------
    TruncatedNegativeBinomialForm or PoissonForm

    Raises
    ------
    PricingError
        If the paper has none for it, or its premise fails.
    """
    raise PricingError(
        "the closed form is known for truncated negative binomials, Poisson and AtMost of these; got "
        f'{run_count!r}: use method=None, "exact" or "rdp".'
    )


@closed_form.register(TruncatedNegativeBinomial)
@closed_form.register(Logarithmic)
@closed_form.register(Geometric)
def _(run_count):
    return TruncatedNegativeBinomialForm(run_count.mean, run_count.gamma, run_count.eta)


@closed_form.register(Poisson)
def _(run_count):
    if not run_count.mean >= 1.0:
        raise PricingError(_poisson_mean_sentence(run_count.mean))
    return PoissonForm(run_count.mean)


@closed_form.register(AtMost)
def _(run_count):
    base = closed_form(run_count.base)
    # The mass beyond both caps, if the base is capped itself.
    mass = float(run_count.base.sf(run_count.m))
    return type(base)(**{**vars(base), "cap_mass": 1.0 - (1.0 - base.cap_mass) * (1.0 - mass)})


@functools.singledispatch
def has_log_convex_weight(run_count):
    """Whether log f'(1 - r) is known to be convex in r (False where it is not known).

    Poisson and zero-truncated Poisson: linear. Truncated negative binomial: -(1 + eta) times the
    logarithm of a linear function.
    """
    return False


@has_log_convex_weight.register(TruncatedNegativeBinomial)
@has_log_convex_weight.register(Logarithmic)
@has_log_convex_weight.register(Geometric)
@has_log_convex_weight.register(Poisson)
@has_log_convex_weight.register(ZeroTruncatedPoisson)
def _(run_count):
    return True
