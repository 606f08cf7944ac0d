"""Noise on private scores: which, how much, what it costs, and how it is drawn.

Scales are in whole rows: a count of rows moves by at most 1 between neighbours, so the noise that is
added to it costs the standard price of sensitivity 1.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skdptune._exceptions import InvalidParameterError, PricingError
from skdptune._integer_noise import bit_source, sample_discrete_gaussian, sample_discrete_laplace
from skdptune._validation import check_choice, check_real, invalid_type, invalid_value
from skdptune.accounting._conversion import default_orders
from skdptune.accounting.curve import PrivacyCurve

__all__ = ["ScoreNoise", "as_score_noise", "matched_noise"]

_MIN_SCALE = 2.0**-5
# a discrete Gaussian's price is summed over its integers; a geometric one has a closed form
_MAX_SCALE = {"geometric": 2.0**40, "discrete_gaussian": 2.0**16}
_MAX_MATCHED = 2.0**13  # a wider profile than this is matched by its RDP curve instead
_SCALE_BITS = 24  # significant bits of a matched scale
_WIDTH = 1e-4  # relative width at which the search for a matched scale stops
_FLOOR = (
    1e-12  # profiles are compared down to this delta; prices are trusted below it, matching not
)
_MAX_NODES = 4096

_SET_IT = (
    "Set score_noise to the standard deviation of the noise in rows, e.g. score_noise=5.0, or score "
    "on public rows."
)


def _sample_none(scale, bits):
    return 0


_SAMPLERS = {
    "geometric": sample_discrete_laplace,
    "discrete_gaussian": sample_discrete_gaussian,
    "none": _sample_none,
}


@dataclass(frozen=True)
class ScoreNoise:
    """Integer noise added once to a count of rows before it is released.

    Parameters
    ----------
    kind : {"geometric", "discrete_gaussian", "none"}
        ``"geometric"``: P(z) proportional to exp(-abs(z) / scale), pure DP with epsilon = 1 / scale.
        ``"discrete_gaussian"``: P(z) proportional to exp(-z**2 / (2 scale**2)), zCDP with
        rho = 1 / (2 scale**2). ``"none"``: exact scores, for public rows.
    scale : float
        In rows (a row's largest contribution is 1); at least 2**-5, at most 2**40 for
        ``"geometric"`` and 2**16 for ``"discrete_gaussian"``; 0 for ``"none"``.

    Raises
    ------
    InvalidTypeError, InvalidParameterError

    Notes
    -----
    *Guarantee.* :meth:`curve` prices the release of ``count + noise`` where neighbouring counts
    differ by at most 1 (any relation). A float is a rational number with a power of two below, and it
    is that rational that is sampled, exactly: what is drawn is what is priced.

    References
    ----------
    Canonne, Kamath & Steinke, arXiv 2004.00010v5: Definition 1 and Theorem 4 (discrete Gaussian).
    Ghosh, Roughgarden & Sundararajan, arXiv 0811.2841v3: Definition 2.2 (geometric mechanism).

    Examples
    --------
    >>> noise = ScoreNoise.discrete_gaussian(3.0)
    >>> noise
    ScoreNoise(kind='discrete_gaussian', scale=3.0)
    >>> noise.sample(seed=2**127) == noise.sample(seed=2**127)
    True
    """

    kind: str
    scale: float = 0.0

    def __post_init__(self):
        check_choice("kind", self.kind, tuple(_SAMPLERS))
        high = _MAX_SCALE.get(self.kind, 0.0)
        low = min(_MIN_SCALE, high)
        object.__setattr__(self, "scale", check_real("scale", self.scale, low=low, high=high))

    @classmethod
    def geometric(cls, scale):
        """Two-sided geometric (discrete Laplace) noise, epsilon = 1 / scale.

        Examples
        --------
        >>> ScoreNoise.geometric(2.0).standard_deviation > 2.0
        True
        """
        return cls("geometric", scale)

    @classmethod
    def discrete_gaussian(cls, scale):
        """Discrete Gaussian noise of standard deviation ``scale`` (a little less below 0.5).

        Examples
        --------
        >>> round(ScoreNoise.discrete_gaussian(2.0).standard_deviation, 6)
        2.0
        """
        return cls("discrete_gaussian", scale)

    @classmethod
    def none(cls):
        """No noise: only for public rows.

        Examples
        --------
        >>> ScoreNoise.none().sample()
        0
        """
        return cls("none", 0.0)

    @property
    def standard_deviation(self):
        """Standard deviation in rows; over the number of rows, that of an accuracy."""
        if self.kind == "none":
            return 0.0
        if self.kind == "geometric":
            return 1 / (math.sqrt(2) * math.sinh(1 / (2 * self.scale)))
        if self.scale > 8:
            return self.scale  # the relative difference is below exp(-1000)
        z = np.arange(-128, 129)
        mass = np.exp(-((z / self.scale) ** 2) / 2)
        return float(np.sqrt(np.sum(mass * z**2) / np.sum(mass)))

    def curve(self, relation="zero-out"):
        """Return the :class:`~skdptune.accounting.PrivacyCurve` of one released score.

        Parameters
        ----------
        relation : {"zero-out", "replace-one", "add-remove"}
            The price is the same in each: a count of rows moves by at most 1. Under add-remove
            the score must be divided by a public constant.

        Raises
        ------
        PricingError
            For ``kind="none"``: an exact score of private rows has no finite price.

        Examples
        --------
        >>> round(ScoreNoise.geometric(2.0).curve().epsilon(0.0), 12)
        0.5
        """
        if self.kind == "none":
            raise PricingError(
                "score_noise must not be none on private rows: an exact score has no finite price. "
                + _SET_IT
            )
        if self.kind == "geometric":
            return PrivacyCurve.geometric(self._epsilon(), relation=relation)
        return PrivacyCurve.discrete_gaussian(self.scale, relation=relation)

    def _epsilon(self):
        epsilon = 1 / self.scale
        if Fraction(epsilon) * Fraction(self.scale) < 1:
            epsilon = math.nextafter(epsilon, math.inf)  # rounded up: the private side
        return epsilon

    def sample(self, seed=None):
        """Draw the noise, an integer in rows.

        Parameters
        ----------
        seed : int or None
            None: operating system entropy. An int: repeatable, and private only while the seed is
            secret; give 128 bits or more, and another one for every run.

        Examples
        --------
        >>> isinstance(ScoreNoise.geometric(2.0).sample(), int)
        True
        """
        return _SAMPLERS[self.kind](self.scale, bit_source(seed))


def as_score_noise(score_noise, training_curve):
    """Return the :class:`ScoreNoise` that the ``score_noise`` argument of a search means.

    Parameters
    ----------
    score_noise : "matched", float or ScoreNoise
        ``"matched"``: :func:`matched_noise`. A positive number: discrete Gaussian noise of that
        standard deviation in rows, whatever the training costs; a search of pure-DP candidates
        stays pure with ``ScoreNoise.geometric(scale)`` instead.
    training_curve : PrivacyCurve
        The cost of one training.

    Returns
    -------
    ScoreNoise

    Raises
    ------
    InvalidTypeError, InvalidParameterError
        Also for 0 and ``ScoreNoise.none()``: private rows are never scored exactly.
    PricingError
        If ``"matched"`` has nothing to match.

    Examples
    --------
    >>> as_score_noise(5.0, None)
    ScoreNoise(kind='discrete_gaussian', scale=5.0)
    """
    expected = "'matched', a positive number of rows or a ScoreNoise"
    if isinstance(score_noise, ScoreNoise):
        if type(score_noise) is not ScoreNoise:  # what it draws need not be what it is priced for
            raise invalid_type(
                "score_noise", f"{expected} itself, not of a subclass", score_noise, "Use ScoreNoise.geometric(...)."
            )
        if score_noise.kind == "none":
            raise invalid_value("score_noise", f"{expected} that is not none", score_noise, _SET_IT)
        return score_noise
    if isinstance(score_noise, str):
        if score_noise != "matched":
            raise invalid_value("score_noise", expected, score_noise, _SET_IT)
        return matched_noise(training_curve)
    if score_noise is None:
        raise invalid_type("score_noise", expected, score_noise, _SET_IT)
    if (
        not isinstance(score_noise, bool)
        and isinstance(score_noise, (int, float))
        and not score_noise
    ):
        raise invalid_value(
            "score_noise", f"{expected}: 0 would publish exact scores", score_noise, _SET_IT
        )
    high = _MAX_SCALE["discrete_gaussian"]
    scale = check_real("score_noise", score_noise, low=_MIN_SCALE, high=high, advice=_SET_IT)
    return ScoreNoise.discrete_gaussian(scale)


def matched_noise(training_curve):
    """Return the least score noise that is priced at most like one training.

    A row is trained on or scored, so a run costs the worse of the two; matched noise is as little as
    can be without the score being the worse one. Pure-DP training gets geometric noise (a Gaussian
    never lies under a pure curve), any other the geometric or discrete Gaussian noise of smaller
    standard deviation.

    Parameters
    ----------
    training_curve : PrivacyCurve

    Returns
    -------
    ScoreNoise
        Its scale is rounded up to 24 significant bits.

    Raises
    ------
    PricingError
        If training is free (nothing to match) or its cost is infinite.

    Notes
    -----
    With a dominating pair the two profiles are compared in both directions, at their vertices,
    down to a delta of 1e-12. From an RDP curve alone the scale is the root of
    sup over orders of order / (2 rdp(order)).

    Nothing rests on the match: the search prices training and score each by itself and takes the
    worse, so poorly matched noise would cost accuracy or epsilon, never a guarantee.

    Examples
    --------
    >>> from skdptune.accounting.curve import PrivacyCurve
    >>> matched_noise(PrivacyCurve.pure(0.5))
    ScoreNoise(kind='geometric', scale=2.0)
    >>> level = PrivacyCurve.from_rdp_function(lambda orders: orders / (2 * 3.0**2))
    >>> round(matched_noise(level).scale, 4)
    3.0
    """
    pair = training_curve.pair
    if pair is None:
        return _match_rdp(training_curve)
    total_variation = float(pair.worst_delta(0.0))
    if total_variation <= 1e-15:
        raise _nothing_to_match()
    if math.isinf(training_curve.epsilon(1 - 1e-9)):
        raise _infinite()
    pure = training_curve.epsilon(0.0)
    target = _Profile(pair)
    if math.isfinite(pure):
        # Its profile ends at epsilon = pure: more geometric noise than this is needed only where
        # the training is better than randomised response before its end.
        noise = _round_pure(pure)
        return noise if target.lies_above(noise) else _least_scale("geometric", target) or noise
    found = [_least_scale(kind, target) for kind in ("geometric", "discrete_gaussian")]
    found = [noise for noise in found if noise is not None]
    if found:
        return min(found, key=lambda noise: noise.standard_deviation)
    return _match_rdp(training_curve)


def _nothing_to_match():
    return PricingError(
        "score_noise='matched' needs training that costs something; this training is free, or nearly. "
        + _SET_IT
    )


def _infinite():
    return PricingError(
        "score_noise='matched' needs training of a finite cost; this training has none. "
        "Use a candidate whose privacy cost is finite."
    )


def _round_up(scale):
    fraction, exponent = math.frexp(scale)
    whole = math.ceil(math.ldexp(fraction, _SCALE_BITS))  # up: more noise is the private side
    return max(math.ldexp(whole, exponent - _SCALE_BITS), _MIN_SCALE)


def _checked(kind, scale):
    scale = _round_up(scale)
    if scale > _MAX_SCALE[kind]:
        raise _nothing_to_match()
    return ScoreNoise(kind, scale)


def _round_pure(epsilon):
    return _checked("geometric", 1 / epsilon)


def _match_rdp(curve):
    orders = np.array(default_orders())
    rdp = np.asarray(curve.rdp(orders), dtype=float)
    if not np.any(np.isfinite(rdp)):
        raise _infinite()
    if np.any(rdp <= 0):
        raise _nothing_to_match()
    # rdp(order) = order / (2 scale^2) bounds the discrete Gaussian: it must lie below at each order.
    return _checked("discrete_gaussian", math.sqrt(float(np.max(orders / (2 * rdp)))))


class _Profile:
    """A training's profile, ready to be compared with that of many noises."""

    def __init__(self, pair):
        self._pair, self._swap = pair, pair.swap()
        nodes = np.unique(np.append(np.abs(pair.losses), 0.0))
        if nodes.size > _MAX_NODES:
            nodes = nodes[np.linspace(0, nodes.size - 1, _MAX_NODES).astype(int)]
        self._nodes, self._deltas = nodes, self._both(nodes)

    def _both(self, nodes):
        # Below both directions: only then is the noise dominated at negative epsilon too.
        return np.minimum(self._pair.delta(nodes), self._swap.delta(nodes))

    def lies_above(self, noise):
        """Say whether the noise's profile is below, at the vertices of both, down to the floor."""
        other = noise.curve().pair  # symmetric
        own = other.losses[other.losses >= 0]
        slack = 1 + 1e-9
        return bool(
            np.all(other.delta(self._nodes) <= self._deltas * slack + _FLOOR)
            and np.all(other.delta(own) <= self._both(own) * slack + _FLOOR)
        )


def _least_scale(kind, target):
    """Bisect for the least scale of ``kind`` under ``target``; what is returned was checked."""
    high = _MIN_SCALE
    while not target.lies_above(ScoreNoise(kind, high)):
        high *= 2
        if high > _MAX_MATCHED:
            return None
    low = high / 2
    while high > _MIN_SCALE and high - low > _WIDTH * high:
        middle = _round_up((low + high) / 2)
        if target.lies_above(ScoreNoise(kind, middle)):
            high = middle
        else:
            low = middle
    return ScoreNoise(kind, high)


def refuse_sample_weight(sample_weight):
    """Refuse row weights on private rows.

    Raises
    ------
    InvalidParameterError

    Examples
    --------
    >>> refuse_sample_weight(None)
    """
    if sample_weight is not None:
        raise InvalidParameterError(
            "sample_weight must be None on private rows: one row's weight would change what it can "
            "move in the training and in the score, which is priced for weight 1. Use "
            "WeightedAccuracyScorer(class_weight=...) for public class weights."
        )
