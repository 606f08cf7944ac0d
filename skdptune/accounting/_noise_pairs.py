"""Dominating pairs of the basic noise mechanisms, built cell by cell.

The loss of every mechanism here is monotone in one real output x, so a grid of losses cuts the
line into cells whose masses under P and under Q are differences of distribution functions. Each
cell is then split between its two end losses with both masses kept. This is the connect-the-dots
rounding (Doroshenko et al., arXiv 2207.04380v1) computed without differences of hockey-stick
values: it loses no digits in the tails, and both measures sum to one.
"""

import functools

import numpy as np
from scipy.special import ndtr

from skdptune.accounting._compose import DEFAULT_SPACING
from skdptune.accounting._pair_builders import pair_from_atoms, without_excess
from skdptune.accounting._pairs import DominatingPair

__all__ = [
    "discrete_gaussian_pair",
    "discrete_laplace_pair",
    "gaussian_pair",
    "laplace_pair",
    "randomised_response_pair",
    "subsampled_gaussian_pair",
]

_TAIL_SIGMAS = 14.2  # normal mass beyond it: 5e-46, charged as infinite loss
_MAX_CELLS = 2**18
_ROUNDING = 2e-14
LEAST_NOISE = 1e-3  # losses of less noise reach beyond 5e5 nats: no grid holds them, the Renyi curve has the price
LARGEST_LOSS = 1e7  # the same for Laplace noise
_FAINT_LOSS = 1e-8
LARGEST_SCALE = 1e6  # integers that a discrete Gaussian is spread over are listed up to here


def _spacing(scale, low, high):
    """Return 1e-4 times a power of two, fine for ``scale`` and not too fine for the range."""
    wanted = min(DEFAULT_SPACING, scale / 16)
    wanted = max(wanted, (high - low) / (_MAX_CELLS - 4))
    return DEFAULT_SPACING * 2.0 ** np.ceil(np.log2(wanted / DEFAULT_SPACING))


def _normal_mass(low, high, mean, sigma):
    """Mass of N(mean, sigma^2) on cells, each from the side on which it is a tail."""
    a, b = (low - mean) / sigma, (high - mean) / sigma
    return np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))


def _split_cells(first, spacing, p, q, p_above, q_above, symmetric=False):
    """Split cell k, between losses first + k and first + k + 1 steps, keeping both masses."""
    low = (first + np.arange(p.size)) * spacing
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.clip(np.log(p) - np.log(q) - low, 0.0, spacing)
    rest = np.where(np.isnan(rest), spacing, rest)  # nothing known of the ratio: rounded up
    q_up = np.expm1(rest) / np.expm1(spacing)
    p_up = np.minimum(q_up * np.exp(spacing - rest), 1.0)
    # rounded up: the distribution functions are good to about 1e-14 of each tail
    p, q = p * (1 + _ROUNDING), q * (1 + _ROUNDING)
    p_new, q_new = np.zeros(p.size + 1), np.zeros(p.size + 1)
    p_new[:-1] += p * (1 - p_up)
    q_new[:-1] += q * (1 - q_up)
    p_new[1:] += p * p_up
    q_new[1:] += q * q_up
    losses = (first + np.arange(p.size + 1)) * spacing
    p_new, q_new = without_excess(losses, p_new, q_new, p_above, q_above)
    keep = (p_new > 0) | (q_new > 0)
    return DominatingPair(
        losses[keep], p_new[keep], q_new[keep], p_above, q_above, spacing, symmetric
    )


@functools.lru_cache(maxsize=4)
def gaussian_pair(noise_multiplier):
    """Return the pair N(1, s^2) against N(0, s^2).

    Examples
    --------
    >>> round(gaussian_pair(3.0).epsilon(1e-5), 3)
    1.271
    """
    sigma = float(noise_multiplier)
    top = (0.5 + _TAIL_SIGMAS * sigma) / sigma**2  # loss (x - 1/2) / s^2 at x = 1 + tail
    spacing = _spacing(1 / sigma, -top, top)
    last = int(np.ceil(top / spacing))
    steps = np.arange(-last, last + 1)
    x = steps * spacing * sigma**2 + 0.5
    p = _normal_mass(x[:-1], x[1:], 1.0, sigma)
    q = _normal_mass(x[:-1], x[1:], 0.0, sigma)
    # both tails leave the line: P's to infinite loss, Q's to zero ratio
    out = float(ndtr((x[0] - 1) / sigma) + ndtr((1 - x[-1]) / sigma))
    return _split_cells(-last, spacing, p, q, out, out, symmetric=True)


@functools.lru_cache(maxsize=4)
def subsampled_gaussian_pair(noise_multiplier, sample_rate, replace):
    """Return the pair of one Poisson-subsampled Gaussian step.

    With ``replace`` false: (1 - q) N(0, s^2) + q N(1, s^2) against N(0, s^2), the remove
    direction; the add direction is its swap (Zhu, Dong and Wang, arXiv 2106.08567v4, Theorem 11).

    With ``replace`` true: (1 - q) N(0) + q N(1) against (1 - q) N(0) + q N(-1). It dominates any
    two clipped contributions u, v (norms <= 1): for c >= 1 and any test region S,
    (1-q)(1-c) N(0)(S) + q N(u)(S) - c q N(v)(S) is largest, given N(u)(S), where the other two
    masses are least. By Neyman and Pearson these are at least those of a half-line after shifts of
    1 and of 2, and the pair here attains both with the same half-line. c < 1 is the same claim
    with the two datasets exchanged.
    """
    sigma, rate = float(noise_multiplier), float(sample_rate)
    # losses must stand out from the rounding of 1 + loss; less noise costs no less
    sigma = min(sigma, max(1e6, 1e12 * rate))
    x_top = 1.0 + _TAIL_SIGMAS * sigma
    if replace:
        loss, inverse = _replace_loss(sigma, rate)
        low, high = -loss(x_top), loss(x_top)
    else:
        loss, inverse = _remove_loss(sigma, rate)
        low, high = float(np.log1p(-rate)), loss(x_top)
    # typical size of one step's loss
    scale = rate * min(np.sqrt(np.expm1(min(1 / sigma**2, 1.0))), 1.0)
    spacing = _spacing(scale, low, high)
    first, last = int(np.floor(low / spacing)), int(np.ceil(high / spacing))
    x = inverse(np.arange(first, last + 1) * spacing)
    p = (1 - rate) * _normal_mass(x[:-1], x[1:], 0.0, sigma)
    p += rate * _normal_mass(x[:-1], x[1:], 1.0, sigma)
    q = (1 - rate if replace else 1.0) * _normal_mass(x[:-1], x[1:], 0.0, sigma)
    if replace:
        q += rate * _normal_mass(x[:-1], x[1:], -1.0, sigma)
    # what lies beyond the ends: P to infinite loss, Q to zero ratio (both sides at most this)
    out = float(2 * ndtr((1 - x[-1]) / sigma))
    return _split_cells(first, spacing, p, q, out, out, symmetric=replace)


def _remove_loss(sigma, rate):
    def loss(x):
        return float(np.logaddexp(np.log1p(-rate), np.log(rate) + (x - 0.5) / sigma**2))

    def inverse(losses):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # e^l = 1 - q + q e^{(x - 1/2)/s^2}, in two forms that keep their digits
            small = np.log1p(np.expm1(np.minimum(losses, 30.0)) / rate)
            large = losses + np.log1p(-(1 - rate) * np.exp(-losses)) - np.log(rate)
        value = np.where(losses < 30, small, large)
        return np.where(np.isnan(value), -np.inf, value) * sigma**2 + 0.5

    return loss, inverse


def _replace_loss(sigma, rate):
    def one_sided(x):
        return np.logaddexp(np.log1p(-rate), np.log(rate) + (x - 0.5) / sigma**2)

    def loss(x):
        return float(one_sided(x) - one_sided(-x))

    def inverse(losses):
        # x = s^2 (l/2 + asinh(A sinh(l/2))), A = (1-q)/q e^{1/(2 s^2)}, odd in l
        half = np.abs(losses) / 2
        with np.errstate(divide="ignore"):
            log_sinh = half + np.log(-np.expm1(-2 * half)) - np.log(2.0)
        w = np.log1p(-rate) - np.log(rate) + 0.5 / sigma**2 + log_sinh
        asinh = np.where(
            w < 0,
            np.arcsinh(np.exp(np.minimum(w, 0.0))),
            w + np.log1p(np.hypot(1.0, np.exp(-np.maximum(w, 0.0)))),
        )
        return np.sign(losses) * sigma**2 * (half + asinh)

    return loss, inverse


@functools.lru_cache(maxsize=4)
def laplace_pair(epsilon):
    """Return the pair of two Laplace laws of scale 1 / epsilon, one apart.

    Atoms of mass 1/2 sit at the largest loss and its mirror image; the losses in between come
    from the outputs between the two centres.
    """
    epsilon = float(epsilon)
    if epsilon < _FAINT_LOSS:
        # the ratio of a cell's masses would round to one; randomised response dominates, and hardly differs
        return randomised_response_pair(epsilon)
    cells = 2 * int(np.clip(np.ceil(epsilon / DEFAULT_SPACING), 64, _MAX_CELLS // 2))
    spacing = 2 * epsilon / cells
    edges = (np.arange(cells + 1) - cells // 2) * spacing
    shrink = -np.expm1(-spacing / 2)
    p = 0.5 * np.exp(-(epsilon - edges[1:]) / 2) * shrink
    q = 0.5 * np.exp(-(epsilon + edges[:-1]) / 2) * shrink
    # the atoms have exactly the end ratios, so adding them keeps the outer cells' ratios inside
    p[-1] += 0.5
    q[-1] += 0.5 * np.exp(-epsilon)
    p[0] += 0.5 * np.exp(-epsilon)
    q[0] += 0.5
    return _split_cells(-(cells // 2), spacing, p, q, 0.0, 0.0, symmetric=True)


@functools.lru_cache(maxsize=64)
def randomised_response_pair(epsilon, delta=0.0):
    """Return the canonical pair of an (epsilon, delta) promise.

    Kairouz, Oh and Viswanath, arXiv 1311.0776v4, Theorem 3.4: it dominates every mechanism with
    that promise.
    """
    epsilon, delta = float(epsilon), float(delta)
    if epsilon == 0:
        rest = [1.0 - delta]
        return DominatingPair([0.0], rest, rest, delta, delta, None, True)
    light = np.exp(-epsilon) / (1 + np.exp(-epsilon))
    low, high = (1 - delta) * light, (1 - delta) * (1 - light)
    return DominatingPair(
        [-epsilon, epsilon], [low, high], [high, low], delta, delta, epsilon, True
    )


@functools.lru_cache(maxsize=4)
def discrete_gaussian_pair(scale):
    """Return the pair of two discrete Gaussians of parameter ``scale``, one apart.

    The law of Canonne, Kamath and Steinke (arXiv 2004.00010v5, Definition 1): weight
    exp(-x^2 / (2 scale^2)) at each integer x.
    """
    scale = float(scale)
    reach = int(np.ceil(_TAIL_SIGMAS * scale)) + 2
    x = np.arange(-reach, reach + 2)
    log_p, log_q = -((x - 1.0) ** 2) / (2 * scale**2), -(x.astype(float) ** 2) / (2 * scale**2)
    p, q = np.exp(log_p), np.exp(log_q)
    total = float(np.exp(-(np.arange(-reach - 1, reach + 2) ** 2.0) / (2 * scale**2)).sum())
    p, q = p / total, q / total
    # beyond the last integers: less than twice the normal tail, to the singular parts
    out = float(4 * ndtr(-(reach - 1) / scale))
    pair = pair_from_atoms(log_p - log_q, p, q, out, out, None, True)
    return pair if pair.size <= _MAX_CELLS else pair.coarsen(_spacing(1 / scale, 0.0, 0.0))


@functools.lru_cache(maxsize=4)
def discrete_laplace_pair(parameter, sensitivity=1):
    """Return the pair of two discrete Laplace laws, weight e^{-parameter |x|}, some steps apart.

    One step apart it is the pair of randomised response.
    """
    parameter, steps = float(parameter), int(sensitivity)
    if steps == 1:
        return randomised_response_pair(parameter)
    ratio = np.exp(-parameter)
    x = np.arange(1, steps)  # strictly between the centres 0 (P) and steps (Q)
    head = 1 / (1 + ratio)  # mass of x <= 0 under P, and of x >= steps under Q
    inner = (1 - ratio) / (1 + ratio) * np.exp(-parameter * x)
    p = np.concatenate([[head], inner, [head * np.exp(-parameter * steps)]])
    index = np.concatenate([[steps], steps - 2 * x, [-steps]])
    # the top atoms' mass is a geometric sum, the rest single points; P and Q mirror each other
    return pair_from_atoms(index * parameter, p, p[::-1], 0.0, 0.0, parameter, True)
