"""Numerical helpers that keep relative accuracy where textbook formulas cancel."""

import math

import numpy as np
from scipy import special

__all__ = [
    "binomial_log_pmf",
    "gauss_panels",
    "log_phi",
    "log_rising",
    "negative_binomial_log_pmf",
    "phi",
    "poisson_log_pmf",
]

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def phi(z):
    """Return (1 - e^-z) / z, with 1 at z = 0, for any real z whose exponential is finite."""
    return special.exprel(-np.asarray(z, dtype=float))


def log_phi(z):
    """Return log of :func:`phi`, also where e^-z overflows."""
    z = np.asarray(z, dtype=float)
    big = z < -600.0
    plain = np.log(phi(np.where(big, 0.0, z)))
    # (1 - e^-z) / z = e^-z / |z| up to a factor 1 - e^-600 that is one in double precision
    return np.where(big, -z - np.log(np.where(big, -z, 1.0)), plain)


def _stirling_error(x):
    """log Gamma(x + 1) - (x + 1/2) log x + x - log(2 pi) / 2, for x > 0."""
    x = np.asarray(x, dtype=float)
    small = np.minimum(x, 16.0)
    direct = special.gammaln(small + 1.0) - (small + 0.5) * np.log(small) + small - _HALF_LOG_TWO_PI
    large = np.maximum(x, 16.0)
    inverse_square = (1.0 / large) ** 2
    series = np.zeros_like(large)
    for coefficient in reversed(_STIRLING):
        series = series * inverse_square + coefficient
    return np.where(x < 16.0, direct, series / large)


def _deviance(x, m):
    """x log(x / m) + m - x >= 0 for x, m > 0, without cancellation where x is near m."""
    x, m = np.asarray(x, dtype=float), np.asarray(m, dtype=float)
    difference = x - m
    v = difference / (x + m)
    near = np.abs(v) < 0.1
    v_near = np.where(near, v, 0.0)
    # x log((1 + v) / (1 - v)) = 2 x (v + v^3 / 3 + ...); the first term cancels with m - x exactly
    square = v_near * v_near
    tail = np.zeros_like(square)
    for j in range(9, 0, -1):
        tail = (tail + 1.0 / (2 * j + 1)) * square
    close = difference * v_near + 2.0 * x * v_near * tail
    with np.errstate(divide="ignore", over="ignore"):
        far = x * np.log(x / m) - difference
    return np.where(near, close, far)


def _log_binomial_form(x, y, p, q):
    """log of Gamma(x+y+1) / (Gamma(x+1) Gamma(y+1)) p^x q^y for real x, y > 0 and p + q = 1."""
    n = x + y
    return (
        _stirling_error(n)
        - _stirling_error(x)
        - _stirling_error(y)
        - _deviance(x, n * p)
        - _deviance(y, n * q)
        + 0.5 * (np.log(n) - np.log(x) - np.log(y))
        - _HALF_LOG_TWO_PI
    )


def binomial_log_pmf(k, n, p, q):
    """Log pmf of Binomial(n, p) at integers 0 <= k <= n; ``q`` is 1 - p, given apart."""
    k = np.asarray(k, dtype=float)
    inside = (k > 0) & (k < n)
    if p >= 1.0 or n == 0:
        return np.where(k == n, 0.0, -np.inf)
    middle = np.where(inside, k, 0.5)
    out = _log_binomial_form(middle, n - middle, p, q)
    out = np.where(k == 0, special.xlog1py(n, -p), out)
    return np.where(k == n, n * math.log(p), out)


def negative_binomial_log_pmf(x, shape, gamma, odds):
    """Log of (shape)_x / x! gamma^shape (1 - gamma)^x at integers x >= 0; odds = (1-gamma)/gamma."""
    x = np.asarray(x, dtype=float)
    zero = -shape * math.log1p(odds)
    if odds == 0.0:
        return np.where(x == 0, 0.0, -np.inf)
    positive = np.where(x > 0, x, 1.0)
    form = _log_binomial_form(np.full_like(positive, shape), positive, gamma, odds * gamma)
    return np.where(x > 0, form + math.log(shape) - np.log(shape + positive), zero)


def log_rising(shape, k):
    """Log of (shape)_k / k! for shape > 0 and integers k >= 0."""
    k = np.asarray(k, dtype=float)
    positive = np.where(k > 0, k, 1.0)
    total = shape + positive
    out = (
        math.log(shape)
        - np.log(total)
        + _stirling_error(total)
        - _stirling_error(shape)
        - _stirling_error(positive)
        + 0.5 * (np.log(total) - math.log(shape) - np.log(positive))
        - _HALF_LOG_TWO_PI
        + shape * np.log1p(positive / shape)
        + positive * np.log1p(shape / positive)
    )
    return np.where(k > 0, out, 0.0)


def poisson_log_pmf(k, rate):
    """Log pmf of Poisson(rate) at integers k >= 0, rate > 0."""
    k = np.asarray(k, dtype=float)
    positive = np.where(k > 0, k, 1.0)
    form = -_stirling_error(positive) - _deviance(positive, rate)
    form = form - 0.5 * np.log(positive) - _HALF_LOG_TWO_PI
    return np.where(k > 0, form, -rate)


def gauss_panels(low, high, panels, order=16):
    """Nodes and weights of a composite Gauss-Legendre rule on [low, high]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    edges = np.linspace(low, high, panels + 1)
    half = 0.5 * np.diff(edges)[:, None]
    points = edges[:-1, None] + half * (nodes + 1.0)
    return points.ravel(), (half * weights).ravel()
