"""Dominating pairs: two discrete measures whose hockey-stick divergence bounds a mechanism's.

Notation (paper <-> code): l = log dP/dQ <-> ``losses``; P, Q <-> ``p``, ``q``;
H_{e^eps}(P|Q) = sum (p - e^eps q)_+ <-> ``delta(epsilon)``. See Zhu, Dong and Wang,
arXiv 2106.08567v4, Definition 7 (dominating pairs) and Theorem 10 (they compose).
"""

import functools
import hashlib
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from skdptune._rounding import delta_up
from skdptune._validation import invalid_value

__all__ = ["DominatingPair"]

_SUM_TOLERANCE = 1e-9  # how much a measure may lack before it is called broken
_EXCESS_TOLERANCE = 1e-3  # too much mass only raises the price: long compositions round up
_SPREAD = 1e-12  # lacking less than this is rounding of the masses, not a mass left out
# relative error allowed for in every tail sum: that of the ratio of an atom's two masses, at most 1 u
# per unit of their logarithms, and of the sums
_ROUNDING = 2e-14


@dataclass(frozen=True, eq=False, repr=False)
class DominatingPair:
    """Two discrete measures (P, Q) that dominate a mechanism's two output laws.

    Parameters
    ----------
    losses : ndarray of shape (n,)
        log(dP/dQ) of each atom in nats, finite and strictly ascending.
    p, q : ndarray of shape (n,)
        Mass of each atom under P and under Q; ``p = q * exp(losses)`` up to rounding.
    p_infinite : float
        P-mass where Q is zero (loss plus infinity).
    q_zero : float
        Q-mass where P is zero (loss minus infinity).
    spacing : float or None
        If given, every loss is an integer multiple of it.
    symmetric : bool
        Whether (Q, P) has the same profile as (P, Q).

    Notes
    -----
    Masses that do not reach one are topped up at infinite loss (P) and at zero ratio (Q), the
    private side; less than 1e-12 is taken for rounding and spread over all atoms. Sums may exceed
    one by rounding; they are never scaled down.

    Raises
    ------
    InvalidParameterError
        If losses are not ascending, a mass is negative or not finite, or a sum is not one.

    Examples
    --------
    >>> pair = DominatingPair([-1.0, 1.0], [0.26894, 0.73106], [0.73106, 0.26894], 0.0, 0.0)
    >>> round(float(pair.delta(0.0)), 5)
    0.46212
    >>> round(pair.epsilon(0.0), 6)
    1.0
    """

    losses: np.ndarray
    p: np.ndarray
    q: np.ndarray
    p_infinite: float = 0.0
    q_zero: float = 0.0
    spacing: float | None = None
    symmetric: bool = False

    def __post_init__(self):
        arrays = {}
        for name in ("losses", "p", "q"):
            values = np.array(getattr(self, name), dtype=np.float64)
            values.setflags(write=False)
            arrays[name] = values
            object.__setattr__(self, name, values)
        if len({a.shape for a in arrays.values()}) != 1 or self.losses.ndim != 1:
            raise invalid_value("losses, p and q", "three vectors of one length", self.losses)
        if not np.all(np.isfinite(self.losses)) or np.any(np.diff(self.losses) <= 0):
            raise invalid_value("losses", "finite and strictly ascending", self.losses)
        masses = (self.p, self.q, np.array([self.p_infinite, self.q_zero], dtype=float))
        if not all(np.all(np.isfinite(m)) and np.all(m >= 0) for m in masses):
            raise invalid_value("p and q", "finite masses that are not negative", self.p)
        self._top_up("p", "p_infinite")
        self._top_up("q", "q_zero")

    def _top_up(self, measure, rest):
        """Put what a measure lacks to one where it costs most (private side)."""
        extra = float(getattr(self, rest))
        mass = getattr(self, measure)
        total = float(np.sum(mass)) + extra
        missing = 1 - total
        if missing > _SUM_TOLERANCE or -missing > _EXCESS_TOLERANCE:
            raise invalid_value(f"sum of {measure}", "one within 1e-9", total)
        if missing <= 1e-15:
            pass  # the rounding of the sum itself
        elif missing <= _SPREAD and total > extra:
            # rounding of the masses themselves: each is raised by that relative error
            mass = mass * (1 + missing / (total - extra))
            mass.setflags(write=False)
            object.__setattr__(self, measure, mass)
        else:
            extra += missing
        object.__setattr__(self, rest, extra)

    def __reduce__(self):
        fields = (self.losses, self.p, self.q, self.p_infinite, self.q_zero)
        return (type(self), (*fields, self.spacing, self.symmetric))

    def __repr__(self):
        low, high = (self.losses[0], self.losses[-1]) if self.size else (0.0, 0.0)
        return (
            f"<DominatingPair of {self.size} atoms, losses {low:.4g} to {high:.4g}, "
            f"infinite mass {delta_up(self.p_infinite)}, zero-ratio mass {delta_up(self.q_zero)}>"
        )

    @property
    def size(self):
        """Number of atoms with a finite loss."""
        return self.losses.size

    @functools.cached_property
    def cache_key(self):
        """A digest of the pair's content: equal pairs have equal keys."""
        digest = hashlib.blake2b(digest_size=16)
        for array in (self.losses, self.p, self.q):
            digest.update(array.tobytes())
        digest.update(np.array([self.p_infinite, self.q_zero]).tobytes())
        digest.update(repr((self.spacing, bool(self.symmetric))).encode())
        return digest.hexdigest()

    @functools.cached_property
    def _tails(self):
        """Masses of the atoms i, i+1, ..., n-1 under P and Q, for i = 0..n (last entry 0)."""
        tails = []
        for mass in (self.p, self.q):
            tail = np.zeros(self.size + 1)
            # Extended precision, so that a long sum does not round down.
            tail[:-1] = np.cumsum(mass[::-1], dtype=np.longdouble)[::-1]
            tail.setflags(write=False)
            tails.append(tail)
        return tuple(tails)

    def swap(self):
        """Return the pair (Q, P): the other order of the two neighbours."""
        return self._swapped

    @functools.cached_property
    def _swapped(self):
        return DominatingPair(
            -self.losses[::-1],
            self.q[::-1],
            self.p[::-1],
            self.q_zero,
            self.p_infinite,
            self.spacing,
            self.symmetric,
        )

    def delta(self, epsilon):
        """Return the hockey-stick divergence H_{e^eps}(P|Q), rounded up.

        Parameters
        ----------
        epsilon : float or ndarray
            In nats, any sign; ``inf`` gives the infinite-loss mass.

        Returns
        -------
        delta : float or ndarray of the same shape, in [0, 1]
        """
        eps = np.asarray(epsilon, dtype=np.float64)
        index = np.searchsorted(self.losses, eps, side="right")
        p_tail, q_tail = self._tails
        upper, lower = p_tail[index], q_tail[index]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # inf - inf only where lower is 0
            # e^eps Q(loss > eps), in log space where e^eps overflows
            taken = np.where(lower > 0, np.exp(np.minimum(eps + np.log(lower), 1.0)), 0.0)
            taken = np.where(eps < 700, np.exp(np.minimum(eps, 700.0)) * lower, taken)
            floor = -np.expm1(np.minimum(eps, 0.0))  # 1 - e^eps bounds every pair from below
        # rounded up: the subtraction may lose that much of the larger term
        value = np.maximum(upper - taken, 0.0) + _ROUNDING * upper + self.p_infinite
        value = np.minimum(np.maximum(value, floor), 1.0) + 0.0  # no negative zero
        return float(value) if value.ndim == 0 else value

    def rounding(self, epsilon):
        """Return how much of ``delta(epsilon)`` is there to cover rounding."""
        return _ROUNDING * self._tails[0][np.searchsorted(self.losses, epsilon, side="right")]

    def worst_delta(self, epsilon):
        """Return the larger ``delta`` of (P, Q) and (Q, P)."""
        if self.symmetric:
            return self.delta(epsilon)
        value = np.maximum(self.delta(epsilon), self.swap().delta(epsilon))
        return float(value) if np.ndim(value) == 0 else value

    def epsilon_one_way(self, delta):
        """Return the least epsilon >= 0 with ``self.delta(epsilon) <= delta``, rounded up."""
        if self.p_infinite > delta:
            return np.inf
        if self.delta(0.0) <= delta:
            return 0.0
        # delta(losses) falls along the atoms: the first atom at which it is low enough
        low, high = -1, self.size - 1
        while high - low > 1:
            middle = (low + high) // 2
            if self.losses[middle] > 0 and self.delta(self.losses[middle]) <= delta:
                high = middle
            elif self.losses[middle] <= 0 or self.delta(self.losses[middle]) > delta:
                low = middle
        p_tail, q_tail = self._tails
        ceiling = float(self.losses[high])
        excess = p_tail[high] * (1 + _ROUNDING) + self.p_infinite - delta
        if excess <= 0 or q_tail[high] <= 0:
            return max(ceiling, 0.0)
        # between two atoms delta = A - e^eps B: solved for eps, then pushed to the safe side
        value = float(np.log(excess) - np.log(q_tail[high]))
        step = 1e-15 * max(1.0, abs(value))
        while value < ceiling and self.delta(value) > delta:
            value += step
            step *= 2
        return max(min(value, ceiling), 0.0)

    def epsilon(self, delta):
        """Return the least epsilon >= 0 at which both orders stay within ``delta``.

        Parameters
        ----------
        delta : float in [0, 1]

        Returns
        -------
        epsilon : float
            In nats, rounded up; ``inf`` where the infinite-loss mass exceeds ``delta``.
        """
        value = self.epsilon_one_way(delta)
        return value if self.symmetric else max(value, self.swap().epsilon_one_way(delta))

    def rdp(self, orders):
        """Return the Renyi divergence of both orders' worse, ``inf`` with mass at infinite loss.

        Parameters
        ----------
        orders : array-like of shape (n_orders,), each > 1

        Returns
        -------
        rdp : ndarray of shape (n_orders,), in nats
        """
        if self.p_infinite > 0 or self.q_zero > 0:
            return np.full(np.shape(orders), np.inf)
        return self.conditional_rdp(orders)

    @property
    def aside(self):
        """Mass set aside by :meth:`conditional_rdp`: the larger of the two singular parts."""
        return max(self.p_infinite, self.q_zero)

    def conditional_rdp(self, orders):
        """Return the RDP of the pair conditioned on a finite loss, the worse of both orders.

        Together with ``aside`` this is approximate RDP (Bun and Steinke, arXiv 1605.02065v1,
        Definition 8.1): outside events of mass ``aside`` the divergence is what is returned.
        """
        orders = np.asarray(orders, dtype=np.float64)
        values = [self._one_way_rdp(a) for a in orders.ravel()]
        if not self.symmetric:
            other = self.swap()
            values = [
                max(v, other._one_way_rdp(a)) for v, a in zip(values, orders.ravel(), strict=True)
            ]
        return np.array(values).reshape(orders.shape)

    def _one_way_rdp(self, order):
        if self.p_infinite >= 1 or self.q_zero >= 1 or not order > 1:
            return np.inf
        if not np.isfinite(order):
            return float(self.losses[-1])
        with np.errstate(divide="ignore"):
            # sum p (p/q)^(a-1), taken as sum p e^{(a-1) loss} over the heavier of both measures
            log_p = np.where(self.losses >= 0, np.log(self.p), np.log(self.q) + self.losses)
        total = logsumexp((order - 1) * self.losses + log_p)
        # condition both measures: P by 1/(1 - p_infinite), Q by 1/(1 - q_zero)
        total -= order * np.log1p(-self.p_infinite)
        total += (order - 1) * np.log1p(-self.q_zero)
        return max(float(total) / (order - 1), 0.0) * (1 + 1e-13) + 1e-15

    def coarsen(self, spacing):
        """Return a dominating pair whose losses are integer multiples of ``spacing``.

        Every atom is split between the two neighbouring multiples so that its mass under P and
        its mass under Q are both kept; the split pair maps back to the atom by forgetting the
        split, so it dominates, in both directions.
        """
        if not (np.isfinite(spacing) and spacing > 0):
            raise invalid_value("spacing", "a positive number of nats", spacing)
        if self.spacing is not None and np.isclose(self.spacing, spacing, rtol=1e-15, atol=0):
            return self
        index = np.floor(self.losses / spacing)
        rest = np.clip(self.losses - index * spacing, 0.0, spacing)
        # 1e-12 of a step from a multiple is on it: rounding of the division, not a real split
        on_top = rest > spacing * (1 - 1e-12)
        index, rest = index + on_top, np.where(on_top | (rest < spacing * 1e-12), 0.0, rest)
        q_up = np.expm1(rest) / np.expm1(spacing)  # share of Q-mass that moves up
        p_up = q_up * np.exp(spacing - rest)  # the P-mass that goes with it
        low = index.min() if self.size else 0.0
        cells = int(index.max() - low) + 2 if self.size else 0
        if cells > 50 * self.size + 1000:  # few atoms far apart: keep the empty cells out
            return self._coarsen_sparse(spacing, index, p_up, q_up)
        place = (index - low).astype(np.int64)
        p = np.bincount(place, self.p * (1 - p_up), cells)
        q = np.bincount(place, self.q * (1 - q_up), cells)
        p += np.bincount(place + 1, self.p * p_up, cells)
        q += np.bincount(place + 1, self.q * q_up, cells)
        return self._on_grid(low + np.arange(cells), np.maximum(p, 0), np.maximum(q, 0), spacing)

    def _coarsen_sparse(self, spacing, index, p_up, q_up):
        both = np.concatenate([index, index + 1])
        places, inverse = np.unique(both, return_inverse=True)
        p = np.concatenate([self.p * (1 - p_up), self.p * p_up])
        q = np.concatenate([self.q * (1 - q_up), self.q * q_up])
        p = np.bincount(inverse, np.maximum(p, 0), places.size)
        q = np.bincount(inverse, np.maximum(q, 0), places.size)
        return self._on_grid(places, p, q, spacing)

    def _on_grid(self, index, p, q, spacing):
        keep = (p > 0) | (q > 0)
        return DominatingPair(
            index[keep] * spacing,
            p[keep],
            q[keep],
            self.p_infinite,
            self.q_zero,
            spacing,
            self.symmetric,
        )

    def trim(self, tail_mass):
        """Cut both tails: P-mass up to ``tail_mass`` goes to infinite loss, Q-mass to zero ratio.

        Never makes the pair less dominating: an atom moved to the top keeps its P-mass there and
        its Q-mass at zero ratio, and the other way round at the bottom.
        """
        p_tail, _ = self._tails
        q_low = np.cumsum(self.q)
        first = int(np.searchsorted(q_low, tail_mass, side="right"))
        last = int(np.searchsorted(-p_tail, -tail_mass, side="left"))
        if first == 0 and last >= self.size:
            return self
        first = min(first, max(self.size - 1, 0))
        last = max(min(last, self.size), first)
        cut = np.r_[0:first, last : self.size]
        return DominatingPair(
            self.losses[first:last],
            self.p[first:last],
            self.q[first:last],
            self.p_infinite + float(self.p[cut].sum()),
            self.q_zero + float(self.q[cut].sum()),
            self.spacing,
            self.symmetric,
        )

    def compose(self, other):
        """Return the pair of both mechanisms run on the same data (independent noise)."""
        from skdptune.accounting._compose import compose_pairs

        return compose_pairs([(self, 1), (other, 1)])

    def self_compose(self, count):
        """Return the pair of ``count`` independent runs of this mechanism."""
        from skdptune.accounting._compose import compose_pairs

        return compose_pairs([(self, count)])
