"""Composition of dominating pairs: a convolution whose every cell keeps its relative accuracy.

A sum of losses has law P^n under one dataset and Q^n under the other, and dP^n/dQ^n = e^L again
(Zhu, Dong and Wang, arXiv 2106.08567v4, Theorem 10). One convolution by Fourier transform is
accurate only next to its largest cell; elsewhere its error is about 1e-14 of that cell. So the
measure is tilted first, M_t ~ P e^{tL} (t = 0 is P, t = -1 is Q), convolved, and tilted back:
each cell is rounded up by its error in every tilt, and the least of these bounds is kept. The
errors are proven ones: ``_transforms`` for the convolution, the rest counted here
(doc/theory/composition).
"""

from fractions import Fraction

import numpy as np

from skdptune._validation import check_integer, invalid_value
from skdptune.accounting._pair_builders import pair_from_atoms, without_excess
from skdptune.accounting._pairs import DominatingPair
from skdptune.accounting._transforms import UNIT, convolved_powers, good_length

__all__ = ["DEFAULT_SPACING", "compose_pairs"]

DEFAULT_SPACING = 1e-4
_TAIL = 1e-42  # mass cut from each end of a composition, charged as infinite loss
_MAX_CELLS = 2**19
_WIDEST = 100.0  # nats; a coarser grid would leave nothing of any use
_EXACT_BITS = 18  # log2 of the most atoms that different grids are multiplied out to
# in units of one over the standard deviation of the composed loss: a tilt by t moves a normal
# law by t deviations. All serve Chernoff's bound; those that some cell still needs, a convolution.
_TILTS = np.array([0.25, 0.6, 1.2, 2.0, 3.0, 4.2, 5.6, 7.2, 9.0, 11.0, 13.5, 17.0, 23.0])
_SHARP = 1e-6  # a cell's relative error below which no other tilt is tried for it
_FAINT = 1e-33  # cells lighter than this under both measures need no digits


def compose_pairs(counted, max_cells=_MAX_CELLS):
    """Return the pair of independent runs of several mechanisms on the same data.

    Parameters
    ----------
    counted : list of (DominatingPair, int)
        Each mechanism's pair and how often it runs (zero or more).
    max_cells : int
        The grid is made coarser, with both masses kept, until the result has no more cells.

    Returns
    -------
    pair : DominatingPair
        Dominates the composition in both directions; truncated mass counts as infinite loss.

    Examples
    --------
    >>> from skdptune.accounting._pairs import DominatingPair
    >>> coin = DominatingPair([-1.0, 1.0], [0.25, 0.75], [0.75, 0.25], spacing=1.0)
    >>> compose_pairs([(coin, 2)]).p.round(4)
    array([0.0625, 0.375 , 0.5625])
    """
    counted = [(pair, check_integer("count", n, low=0)) for pair, n in counted]
    counted = [(pair, n) for pair, n in counted if n > 0]
    if not counted:
        return nothing_pair()
    if len(counted) == 1 and counted[0][1] == 1:
        return counted[0][0]
    empty = [pair for pair, _ in counted if pair.size == 0]
    if empty:  # a mechanism with no finite loss at all: nothing is left to convolve
        return _unknown_pair()
    if sum(n * np.log2(pair.size) for pair, n in counted) <= 12:
        return _compose_exactly(counted)
    spacing = _common_spacing(counted)
    if spacing is None:
        # grids without a simple common spacing: each by itself, then few atoms multiply out;
        # what is left is split onto one grid, never one coarser than the default
        groups = {}
        for pair, n in counted:
            groups.setdefault(pair.spacing, []).append((pair, n))
        counted = [(compose_pairs(group, max_cells), 1) for group in groups.values()]
        if sum(np.log2(pair.size) for pair, _ in counted) <= _EXACT_BITS:
            return _compose_exactly(counted)
        known = [pair.spacing or DEFAULT_SPACING for pair, _ in counted]
        spacing = min(*known, DEFAULT_SPACING)
    while True:
        parts = [(pair.coarsen(spacing), n) for pair, n in counted]
        sums = _LossSum(parts, spacing)
        if sums.cells <= max_cells:
            return sums.pair()
        spacing *= 2.0 ** np.ceil(np.log2(sums.cells / max_cells))
        if spacing > _WIDEST:
            return _unknown_pair()


def _unknown_pair():
    """Return the pair that dominates whatever there is, and tells nothing."""
    return DominatingPair(*([np.array([])] * 3), 1.0, 1.0, None, True)


def nothing_pair():
    """Return the pair of a mechanism that reads no data."""
    return DominatingPair([0.0], [1.0], [1.0], 0.0, 0.0, None, True)


def _common_spacing(counted):
    """Return a spacing of which all grids are multiples, or None if no simple one exists."""
    known = sorted({pair.spacing or DEFAULT_SPACING for pair, _ in counted})
    spacing = known[0]
    for other in known[1:]:
        ratio = Fraction(other / spacing).limit_denominator(1000)
        if abs(float(ratio) - other / spacing) > 1e-12 * other / spacing:
            return None
        spacing /= ratio.denominator
    return spacing


def _singular(counted, field):
    """Mass of an event that happens if it happens in any run: 1 - prod (1 - mass)^count."""
    with np.errstate(divide="ignore"):
        logs = [n * np.log1p(-min(getattr(pair, field), 1.0)) for pair, n in counted]
    # rounded up: equal to a delta that was asked for, it must not fall below it by rounding
    return float(min(-np.expm1(sum(logs)) * (1 + 1e-15), 1.0)) + 0.0


def _compose_exactly(counted):
    """Multiply few atoms out; losses equal up to rounding are merged."""
    losses, p, q = np.zeros(1), np.ones(1), np.ones(1)
    for pair, count in counted:
        for _ in range(count):
            losses = np.add.outer(losses, pair.losses).ravel()
            p = np.multiply.outer(p, pair.p).ravel()
            q = np.multiply.outer(q, pair.q).ravel()
    order = np.argsort(losses, kind="stable")
    losses, p, q = losses[order], p[order], q[order]
    scale = 1e-13 * max(1.0, float(np.abs(losses).max()))
    starts = np.flatnonzero(np.diff(losses, prepend=-np.inf) > scale)
    ends = np.append(starts[1:], losses.size) - 1
    spacings = {pair.spacing for pair, _ in counted}
    spacing = spacings.pop() if len(spacings) == 1 else None
    losses = losses[ends] if spacing is None else np.rint(losses[ends] / spacing) * spacing
    return pair_from_atoms(
        losses,
        np.add.reduceat(p, starts),
        np.add.reduceat(q, starts),
        _singular(counted, "p_infinite"),
        _singular(counted, "q_zero"),
        spacing,
        all(pair.symmetric for pair, _ in counted),
    )


class _LossSum:
    """The law of a sum of independent losses that are multiples of one spacing."""

    def __init__(self, counted, spacing):
        self.counted = counted
        self.spacing = spacing
        self.index = [np.rint(pair.losses / spacing).astype(np.int64) for pair, _ in counted]
        with np.errstate(divide="ignore"):
            # log p, from the measure that is heavier in the cell
            self.log_p = [
                np.where(pair.losses >= 0, np.log(pair.p), np.log(pair.q) + index * spacing)
                for (pair, _), index in zip(counted, self.index, strict=True)
            ]
        spread = np.sqrt(sum(n * self._variance(pair) for pair, n in counted))
        unit = 1.0 / max(spread, spacing)
        # a rare large loss decays at a rate of its own, far slower than the bulk's deviation
        slow = 0.7 * 1.6 ** np.arange(np.clip(np.ceil(np.log(unit * 0.36) / np.log(1.6)), 0, 24))
        high = np.union1d(_TILTS * unit, slow)
        self.tilts = np.concatenate([-1.0 - high[::-1], [-1.0, -0.75, -0.5, -0.25, 0.0], high])
        self.log_m = np.array([self._log_moment(t) for t in self.tilts])
        self._set_window()

    @staticmethod
    def _variance(pair):
        weight = pair.p + pair.q
        total = weight.sum()
        mean = np.dot(weight, pair.losses) / total
        return float(np.dot(weight, (pair.losses - mean) ** 2) / total)

    def _log_moment(self, tilt):
        """log E_P[e^{t L}; L finite] of the whole sum."""
        total = 0.0
        for (pair, count), log_p in zip(self.counted, self.log_p, strict=True):
            exponent = log_p + tilt * pair.losses
            top = exponent.max()
            total += count * (top + np.log(np.exp(exponent - top).sum()))
        return total

    def _set_window(self):
        """Choose the cells kept: Chernoff's bound leaves at most ``_TAIL`` beyond each end."""
        first = sum(n * int(i[0]) for (_, n), i in zip(self.counted, self.index, strict=True))
        last = sum(n * int(i[-1]) for (_, n), i in zip(self.counted, self.index, strict=True))
        up, down = self.tilts > 0, self.tilts < -1
        # P(L > x) <= e^{log M(t) - t x};  Q(L < x) <= e^{log M(t) + (-1 - t) x}, t < -1
        high = np.min((self.log_m[up] - np.log(_TAIL)) / self.tilts[up])
        low = np.max((self.log_m[down] - np.log(_TAIL)) / (1 + self.tilts[down]))
        self.first = max(first, int(np.floor(low / self.spacing)))
        self.last = max(min(last, int(np.ceil(high / self.spacing))), self.first)
        self.cells = self.last - self.first + 1
        self.cut = self.first > first or self.last < last

    def _outside(self, tilt, log_m, length):
        """Bound the tilted mass so far out that it wraps round into the window."""
        if not self.cut:
            return 0.0
        low = (self.last - length) * self.spacing
        high = (self.first + length) * self.spacing
        further = self.log_m - log_m
        above, below = self.tilts > tilt, self.tilts < tilt
        parts = []
        for side, edge in ((above, high), (below, low)):
            bounds = further[side] - (self.tilts[side] - tilt) * edge
            parts.append(np.exp(min(bounds.min(), 0.0)) if bounds.size else 1.0)
        return float(sum(parts)) * (1 + 1e-6)  # the moments' own rounding

    def _tilted(self, tilt):
        """Return [(weights, their error)] of the tilted laws, the log of their scale, its error.

        The exact tilted measure of an atom is its weight times the scale. Errors are counted in u
        (half a unit in the last place), four for a function: the exponent is a sum of a logarithm
        and of a product, both rounded.
        """
        laws, log_scale, error = [], 0.0, 0.0
        for (_, count), index, log_p in zip(self.counted, self.index, self.log_p, strict=True):
            shift = tilt * (index * self.spacing)
            exponent = log_p + shift
            top = exponent.max()
            weight = np.exp(exponent - top)
            total = weight.sum()
            weight /= total
            off = 4 * np.abs(log_p) + 4 * np.abs(shift) + 2 * np.abs(index) * self.spacing
            off += 2 * np.abs(exponent - top) + 6
            laws.append((weight, UNIT * float(np.dot(weight, np.where(weight > 0, off, 0.0)))))
            log_scale += count * (top + np.log(total))
            # not what ``total`` errs by: it is what the weights were divided by
            error += 4 * UNIT * count * (abs(top) + np.log(total) + 1)
        return laws, log_scale, error + 4 * UNIT * abs(log_scale)

    def _bound(self, tilt, length, outside, losses):
        """Return upper bounds of log P on the window by one tilt, and their relative errors."""
        laws, log_scale, scale_error = self._tilted(tilt)
        parts, shift = [], 0
        for (weight, off), index, (_, count) in zip(laws, self.index, self.counted, strict=True):
            # centred on the mean: the law of the sum stays in place
            centre = int(np.rint(np.dot(weight, index)))
            parts.append(((index - centre) % length, weight, off, count))
            shift += count * centre
        law, error = convolved_powers(parts, length)
        law = np.roll(law, (shift - self.first) % length)[: self.cells]
        noise = error + outside
        height = np.log(np.maximum(law, 0.0) + noise)
        # rounded up: each cell by its error, and what follows by its own rounding
        slack = 4 * (np.abs(height) + np.abs(tilt * losses)) + 2 * np.abs(losses) + 8
        bound = height - tilt * losses + log_scale + (UNIT * slack + scale_error)
        return bound, noise / np.maximum(law, noise)

    def pair(self):
        # room beyond the window: what falls there does not wrap into it
        length = good_length(self.cells + self.cells // 2 if self.cut else self.cells)
        losses = np.arange(self.first, self.last + 1) * self.spacing
        # the tilt that stands each cell out most is the one with the least Chernoff bound
        bounds = self.log_m[:, None] - self.tilts[:, None] * losses[None, :: self._stride()]
        owner = np.repeat(np.argmin(bounds, axis=0), self._stride())[: self.cells]
        faint = np.repeat(np.min(bounds, axis=0), self._stride())[: self.cells]
        faint = np.maximum(faint, faint - losses) < np.log(_FAINT)
        log_p, error = np.full(self.cells, np.inf), np.where(faint, 0.0, np.inf)
        for which in self._order():
            tilt = self.tilts[which]
            outside = self._outside(tilt, self.log_m[which], length)
            needed = which in self._always or np.any(error[np.abs(owner - which) <= 1] > _SHARP)
            if outside > 1e-6 or not needed:
                continue
            # every tilt bounds each cell, the least bound is kept
            bound, relative = self._bound(tilt, length, outside, losses)
            np.minimum(log_p, bound, out=log_p)
            np.minimum(error, relative, out=error)
        return self._assemble(losses, log_p)

    def _stride(self):
        return max(self.cells // 4096, 1)

    def _order(self):
        """P and Q themselves first, then every third tilt, then the rest."""
        rest = [i for i in range(self.tilts.size) if i not in self._always]
        return [*self._always, *rest[1::3], *rest[::3], *rest[2::3]]

    @property
    def _always(self):
        return [int(np.argmin(np.abs(self.tilts - t))) for t in (0.0, -1.0)]

    def _assemble(self, losses, log_p):
        # rounded up: the exponentials. The ratio of p and q may err by a few u per unit of their logarithms,
        # for which ``DominatingPair.delta`` and the weights of a selection allow
        p, q = np.exp(log_p) * (1 + 8 * UNIT), np.exp(log_p - losses) * (1 + 8 * UNIT)
        spent = 2 * _TAIL if self.cut else 0.0  # beyond the window, at both ends
        p_infinite = _singular(self.counted, "p_infinite") + spent
        q_zero = _singular(self.counted, "q_zero") + spent
        p, q = _filled(p, p_infinite), _filled(q, q_zero)
        p, q = without_excess(losses, p, q, p_infinite, q_zero)
        keep = (p > 0) | (q > 0)
        return DominatingPair(
            losses[keep],
            p[keep],
            q[keep],
            min(p_infinite, 1.0),
            min(q_zero, 1.0),
            self.spacing,
            all(pair.symmetric for pair, _ in self.counted),
        )


def _filled(mass, rest):
    """Scale a measure up to what it should hold if rounding left it short (never down)."""
    total, target = mass.sum(), 1.0 - rest
    if total < target and total > 0:
        if target - total > 1e-7:
            raise invalid_value("a composed measure", "whole up to rounding", float(total))
        mass = mass * (target / total)
    return mass
