"""Costs built from costs: composition, public mixture, worst case, two steps between datasets."""

from dataclasses import dataclass

import numpy as np

from skdptune.accounting._compose import compose_pairs
from skdptune.accounting._mechanisms import Mechanism, Nothing
from skdptune.accounting._noise_pairs import LEAST_NOISE, gaussian_pair
from skdptune.accounting._pair_builders import (
    mixture_pair,
    pair_from_two_profiles,
    worst_pair,
)

__all__ = ["Composition", "Mixture", "TwoSteps", "Worst", "compose", "mixture", "worst"]

_MAX_ATOMS = 2**19


def compose(counted):
    """Return the node of several (node, count) run on the same data; equal nodes are merged."""
    families, counts, nodes = {}, {}, {}
    for node, count in _flatten(counted):
        if count > 0 and node.key != Nothing().key:
            name = node.key if node.family is None else ("family", node.family)
            families.setdefault(name, []).append((node, count))
    for members in families.values():
        node, count = members[0]
        if len(members) > 1 or count > 1:
            count = sum(times for _, times in members)
            if node.family is not None:
                node, count = node.gather(members), 1
        nodes[node.key], counts[node.key] = node, count
    parts = tuple((nodes[key], counts[key]) for key in sorted(nodes, key=repr))
    if not parts:
        return Nothing()
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    return Composition(parts)


def _flatten(counted):
    for node, count in counted:
        if isinstance(node, Composition):
            for inner, times in node.parts:
                yield inner, times * count
        else:
            yield node, count


@dataclass(frozen=True)
class Composition(Mechanism):
    """Independent runs of several mechanisms on the same data: ((node, count), ...)."""

    parts: tuple

    @property
    def key(self):
        return ("Composition", tuple((node.key, count) for node, count in self.parts))

    @property
    def delta_zero(self):
        # one event for all runs: 1 - prod (1 - delta_i)^n_i, at most the sum
        total = sum(count * node.delta_zero for node, count in self.parts)
        return float(min(total, 1.0))

    def _build_pair(self):
        # independent Gaussians are one Gaussian; its noise is rounded down
        precision = sum(count * node.precision for node, count in self.parts) * (1 + 2e-15)
        if precision > LEAST_NOISE**-2:
            return None
        counted = [(gaussian_pair(precision**-0.5), 1)] if precision > 0 else []
        for node, count in self.parts:
            if node.precision > 0:
                continue
            parts = node.pair_parts()
            if parts is None:
                return None
            counted.extend((pair, count * times) for pair, times in parts)
        return compose_pairs(counted)

    def rdp(self, orders):
        return sum(count * node.rdp(orders) for node, count in self.parts)

    def two_steps(self):
        return compose((node.two_steps(), count) for node, count in self.parts)

    def describe(self):
        texts = (f"{n} * {node.describe()}" if n > 1 else node.describe() for node, n in self.parts)
        return " + ".join(texts)


def mixture(nodes, weights):
    """Return the node of a public random choice; equal nodes share their weight."""
    merged, kept = {}, {}
    for node, weight in zip(nodes, weights, strict=True):
        if weight > 0:
            kept[node.key] = node
            merged[node.key] = merged.get(node.key, 0.0) + weight
    keys = sorted(kept, key=repr)
    if len(keys) == 1:
        return kept[keys[0]]
    return Mixture(tuple(kept[key] for key in keys), tuple(merged[key] for key in keys))


def _thinned(pairs):
    """Bring many or large pairs onto one coarser grid (both masses kept)."""
    if sum(pair.size for pair in pairs) <= _MAX_ATOMS:
        return pairs
    low = min(pair.losses[0] for pair in pairs if pair.size)
    high = max(pair.losses[-1] for pair in pairs if pair.size)
    finest = max((pair.spacing or 0.0) for pair in pairs)
    spacing = max((high - low) / (_MAX_ATOMS // 2), finest)
    return [pair.coarsen(spacing) for pair in pairs]


@dataclass(frozen=True)
class Mixture(Mechanism):
    """A choice made with fixed public probabilities and released with the output."""

    nodes: tuple
    weights: tuple

    @property
    def delta_zero(self):
        total = sum(w * node.delta_zero for w, node in zip(self.weights, self.nodes, strict=True))
        return float(min(total, 1.0))

    def _build_pair(self):
        pairs = [node.pair() for node in self.nodes]
        if any(pair is None for pair in pairs):
            return None
        return mixture_pair(_thinned(pairs), self.weights)

    def rdp(self, orders):
        """log of the weighted mean of e^{(a-1) D_a}, the choice being part of the output.

        Outside the events set aside the choice has weights w_i (1 - delta_i) / (1 - delta),
        the same under both datasets (each event can be thinned to exactly its mass).
        """
        orders = np.asarray(orders, dtype=float)
        keep = 1 - self.delta_zero
        if keep <= 0:
            return np.full(orders.shape, np.inf)
        values = np.array([node.rdp(orders) for node in self.nodes])
        shares = np.array(
            [w * (1 - n.delta_zero) / keep for w, n in zip(self.weights, self.nodes, strict=True)]
        )
        result = values.max(axis=0)  # infinite orders, and a bound for the rest
        finite = np.isfinite(orders) & np.all(np.isfinite(values), axis=0)
        exponent = (orders[finite] - 1) * values[:, finite]
        top = exponent.max(axis=0)
        # sum of shares e^x = e^top (1 + sum shares (e^{x - top} - 1)), shares summing to one
        mean = top + np.log1p(shares @ np.expm1(exponent - top))
        result[finite] = np.minimum(mean / (orders[finite] - 1) + 1e-16, result[finite])
        return result

    def two_steps(self):
        return mixture([node.two_steps() for node in self.nodes], self.weights)

    def describe(self):
        return f"mixture of {len(self.nodes)}"


def worst(nodes):
    """Return the node that costs at least as much as each of ``nodes``, at every epsilon."""
    kept = {node.key: node for node in nodes}
    keys = sorted(kept, key=repr)
    return kept[keys[0]] if len(keys) == 1 else Worst(tuple(kept[key] for key in keys))


@dataclass(frozen=True)
class Worst(Mechanism):
    """Whichever of several mechanisms is worst, separately at every epsilon."""

    nodes: tuple

    @property
    def delta_zero(self):
        return max(node.delta_zero for node in self.nodes)

    def _build_pair(self):
        pairs = [node.pair() for node in self.nodes]
        return None if any(pair is None for pair in pairs) else worst_pair(_thinned(pairs))

    def rdp(self, orders):
        return np.max([node.rdp(orders) for node in self.nodes], axis=0)

    def two_steps(self):
        return worst([node.two_steps() for node in self.nodes])

    def describe(self):
        return f"worst of {len(self.nodes)}"


@dataclass(frozen=True)
class TwoSteps(Mechanism):
    """The cost between two datasets that are both neighbours of a third (its row blank)."""

    node: Mechanism

    def _build_pair(self):
        pair = self.node.pair()
        return None if pair is None else _two_step_pair(pair)

    def rdp(self, orders):
        """Weak triangle inequality: Mironov, arXiv 1702.07476v3, Proposition 11.

        D_a(P|R) <= (a - 1/p)/(a - 1) D_{pa}(P|Q) + D_{p'(a - 1/p)}(Q|R), 1/p + 1/p' = 1, for
        every p > 1: the least over some is taken. Infinite where an event was set aside, since
        the two steps' events need not be the same.
        """
        a = np.asarray(orders, dtype=float)
        result = np.full(a.shape, np.inf)
        if self.node.delta_zero > 0:
            return result
        finite = np.isfinite(a)
        b = a[finite]
        best = np.full(b.shape, np.inf)
        for p in (1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0):
            rest = b - 1 / p
            first, second = self.node.rdp(p * b), self.node.rdp(p / (p - 1) * rest)
            best = np.minimum(best, rest / (b - 1) * first + second)
        pure = 2 * self.node.rdp(np.array([np.inf]))[0]
        result[finite] = np.minimum(best, pure)
        result[~finite] = pure
        return result

    def describe(self):
        return f"two steps of {self.node.describe()}"


def _two_step_pair(pair, points=1500, splits=300):
    """Return a pair for x -> blank -> x': P0(S) <= e^s P1(S) + d1(s) <= e^e P2(S) + ...

    delta(e) <= d1(s) + e^s d2(e - s) for every split s; d1 is the profile of x against blank, d2
    of blank against x', and the two ends can be exchanged, so the result is symmetric.
    """
    if pair.size == 0:
        return pair
    forth, back = pair, pair.swap()
    high = max(float(pair.losses[-1]), 0.0)
    low = max(float(-pair.losses[0]), 0.0)
    # the split may lie anywhere in the range of losses of the first step
    s = np.linspace(-low, high, splits)
    eps = np.linspace(0.0, high + low, points)
    eps[-1] = (high + low) * (1 + 1e-15)
    first = forth.delta(s)
    best = np.ones(points)
    for step, cost in zip(s, first, strict=True):
        best = np.minimum(best, cost + np.exp(step) * back.delta(eps - step))
    best[-1] = min(best[-1], forth.delta(high) + np.exp(high) * back.delta(low))
    return pair_from_two_profiles(eps, best, best)
