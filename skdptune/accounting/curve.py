"""PrivacyCurve: the cost of one mechanism under one neighbouring relation.

Paper <-> code: epsilon(delta) and delta(epsilon) are the privacy profile, rdp(orders) is D_a of
the worse order of the two neighbours, pair is a dominating pair (P, Q).
"""

import functools
from dataclasses import dataclass

import numpy as np

from skdptune._exceptions import RelationMismatchError
from skdptune._validation import (
    check_instance,
    check_integer,
    check_real,
    invalid_type,
    invalid_value,
)
from skdptune.accounting import _combinations, _events
from skdptune.accounting import _mechanisms as nodes
from skdptune.accounting._conversion import check_orders, check_rdp, default_orders, profile_from_rdp
from skdptune.accounting._curve_reading import CurveReading
from skdptune.accounting._relations import check_relation

__all__ = ["PrivacyCurve"]

_LEAST_NOISE, _MOST_NOISE = 1e-100, 1e100
_NOISE_ADVICE = "It is the standard deviation of the noise over the largest norm of one row's contribution."
_CUT = 1e-35  # tails of pairs are cut below this mass, so deltas are not compared there


@dataclass(frozen=True, eq=False, repr=False)
class PrivacyCurve(CurveReading):
    """The privacy cost of one mechanism under one neighbouring relation.

    Build one with a constructor such as :meth:`gaussian` or :meth:`dp_sgd`, combine curves with
    ``a + b`` (both mechanisms run), ``n * a`` (n independent runs), :meth:`mixture` and
    :meth:`worst`, and read them with :meth:`epsilon`, :meth:`delta` and :meth:`rdp`.

    Parameters
    ----------
    node : Mechanism
        The mechanism's cost; made by the constructors.
    relation : {"zero-out", "replace-one", "add-remove"}
        Which two datasets are neighbours.

    Attributes
    ----------
    relation : str
    pair : DominatingPair or None
        Discrete measures whose hockey-stick divergences bound the mechanism's, where known.
    delta_zero : float
        Mass of an event outside which :meth:`rdp` holds; zero unless approximate DP is involved.

    Notes
    -----
    *Guarantee.* Every number returned is an upper bound: neighbours x, x' and every set S of
    outputs satisfy Pr[M(x) in S] <= e^epsilon(delta) Pr[M(x') in S] + delta. Where no bound is
    known the answer is ``inf`` (or delta 1). *Assumes* that the mechanism does what the
    constructor says, with noise of real numbers or exact integers.

    Curves are frozen values: equal descriptions are equal and hash alike.

    Examples
    --------
    >>> curve = PrivacyCurve.gaussian(3.0)
    >>> round(curve.epsilon(1e-5), 3)
    1.271
    >>> round((9 * curve).epsilon(1e-5), 2)
    4.38
    """

    node: nodes.Mechanism
    relation: str = "zero-out"

    def __post_init__(self):
        check_instance("node", self.node, nodes.Mechanism, "a cost node made by a constructor")
        check_relation(self.relation)

    # Constructors -------------------------------------------------------------------------

    @classmethod
    def pure(cls, epsilon, *, relation="zero-out"):
        """Return the cost of any mechanism with a pure ``epsilon`` promise under ``relation``.

        Examples
        --------
        >>> PrivacyCurve.pure(1.0).epsilon(0)
        1.0
        """
        return cls(nodes.Pure(check_real("epsilon", epsilon, low=0)), check_relation(relation))

    @classmethod
    def approximate(cls, epsilon, delta, *, relation="zero-out"):
        """Return the cost of any mechanism with an (epsilon, delta) promise under ``relation``.

        Its Renyi divergence is infinite; :meth:`rdp` holds outside an event of mass ``delta``.

        Examples
        --------
        >>> PrivacyCurve.approximate(1.0, 1e-6).epsilon(1e-7)
        inf
        """
        epsilon = check_real("epsilon", epsilon, low=0)
        delta = check_real("delta", delta, low=0, high=1)
        node = nodes.Approximate(epsilon, delta) if delta > 0 else nodes.Pure(epsilon)
        return cls(node, check_relation(relation))

    @classmethod
    def zcdp(cls, rho, *, relation="zero-out"):
        """Return the cost of any ``rho``-zCDP mechanism: divergence rho a at every order a.

        No dominating pair is known; read and composed through its Renyi curve.

        Examples
        --------
        >>> PrivacyCurve.zcdp(0.5).rdp([2, 8])
        array([1., 4.])
        """
        return cls(nodes.Zcdp(check_real("rho", rho, low=0)), check_relation(relation))

    @classmethod
    def gaussian(cls, noise_multiplier, *, relation="zero-out"):
        """Return the cost of one sum released with Gaussian noise.

        Parameters
        ----------
        noise_multiplier : float > 0
            Standard deviation of the noise over the largest norm of one row's contribution.
        relation : str
            Under "zero-out" and "add-remove" the sum moves by at most that norm. Under
            "replace-one" it moves by up to twice that norm, and is priced so.

        Examples
        --------
        >>> one = PrivacyCurve.gaussian(3.0, relation="replace-one")
        >>> one.epsilon(1e-5) == PrivacyCurve.gaussian(1.5).epsilon(1e-5)
        True
        """
        noise = _check_noise("noise_multiplier", noise_multiplier)
        return cls(_events.gaussian_node(noise, check_relation(relation)), relation)

    @classmethod
    def laplace(cls, epsilon, *, relation="zero-out"):
        """Return the cost of one sum released with Laplace noise.

        Parameters
        ----------
        epsilon : float >= 0
            Largest absolute value of one row's contribution over the scale of the noise. Under
            "replace-one" the sum moves by up to twice that: the cost is 2 epsilon.

        Examples
        --------
        >>> round(PrivacyCurve.laplace(1.0, relation="replace-one").epsilon(0), 12)
        2.0
        """
        epsilon = check_real("epsilon", epsilon, low=0)
        distance = 2 if check_relation(relation) == "replace-one" else 1
        return cls(nodes.Laplace(distance * epsilon) if epsilon else nodes.Nothing(), relation)

    @classmethod
    def dp_sgd(cls, noise_multiplier, sample_rate, steps, *, relation="zero-out"):
        """Return the cost of DP-SGD with Poisson sampling.

        Parameters
        ----------
        noise_multiplier : float > 0
            Standard deviation of the noise over the clipping norm of one row's gradient.
        sample_rate : float in [0, 1]
            Probability with which each row joins each step, independently.
        steps : int >= 0
        relation : str
            Under "zero-out" and "add-remove" a row's gradient comes or goes. Under "replace-one"
            it turns into another of the same norm bound, up to twice as far away.

        References
        ----------
        Abadi et al., arXiv 1607.00133v2; Zhu, Dong and Wang, arXiv 2106.08567v4, Theorem 11.

        Examples
        --------
        >>> curve = PrivacyCurve.dp_sgd(1.0, 256 / 60000, 7031)
        >>> round(curve.epsilon(1e-5), 3)
        1.942
        """
        noise = _check_noise("noise_multiplier", noise_multiplier)
        rate = check_real("sample_rate", sample_rate, low=0, high=1)
        steps = check_integer("steps", steps, low=0)
        relation = check_relation(relation)
        return cls(_events.dp_sgd_node(noise, rate, steps, relation), relation)

    @classmethod
    def discrete_gaussian(cls, scale, *, relation="zero-out"):
        """Return the cost of an integer that neighbours change by at most one, released with
        discrete Gaussian noise of parameter ``scale``.

        Examples
        --------
        >>> round(PrivacyCurve.discrete_gaussian(3.0).epsilon(1e-5), 2)
        1.27
        """
        scale = _check_noise("scale", scale)
        return cls(nodes.DiscreteGaussian(scale), check_relation(relation))

    @classmethod
    def geometric(cls, epsilon, *, relation="zero-out"):
        """Return the cost of an integer that neighbours change by at most one, released with
        two-sided geometric noise of weight e^{-epsilon abs(x)}.

        Its pair is randomised response: it costs no less than any pure ``epsilon`` promise.

        Examples
        --------
        >>> PrivacyCurve.geometric(1.0) == PrivacyCurve.pure(1.0)
        True
        """
        return cls.pure(epsilon, relation=relation)

    @classmethod
    def from_rdp(cls, orders, rdp, *, relation="zero-out"):
        """Return the cost of a mechanism whose Renyi divergence is bounded at some orders.

        Parameters
        ----------
        orders : array-like of shape (n_orders,)
            At least one above 1. Order 1 tells nothing that is used; an infinite order states a
            pure bound.
        rdp : array-like of shape (n_orders,)
            Bounds in nats for both orders of two neighbours; ``inf`` where unknown.

        Raises
        ------
        InvalidParameterError, InvalidTypeError, PricingError
            For no order above 1, orders below 1 or NaN, negative or NaN divergences.

        Examples
        --------
        >>> PrivacyCurve.from_rdp([2, 8], [0.1, 0.4]).rdp([4])
        array([0.33333333])
        """
        orders = check_orders(orders)
        values = check_rdp(rdp, orders.shape)
        if not np.any(orders > 1):
            raise invalid_value("orders", "above 1 at least once", orders, "Pass e.g. [2, 8, 32].")
        table = {}
        for order, value in zip(orders.tolist(), values.tolist(), strict=True):
            if order > 1:
                table[order] = min(value, table.get(order, np.inf))
        ascending = sorted(table)
        node = nodes.FromRdp(tuple(ascending), tuple(table[order] for order in ascending))
        return cls(node, check_relation(relation))

    @classmethod
    def from_rdp_function(cls, function, *, relation="zero-out"):
        """Return the cost of a mechanism whose Renyi divergence is given by a function.

        Parameters
        ----------
        function : callable
            Takes an ndarray of finite orders > 1 of shape (n_orders,), returns divergences in
            nats of the same shape (``inf`` where unknown). It must not change over time; it is
            called at the default orders at once, so a broken one fails here.

        Raises
        ------
        InvalidTypeError, PricingError

        Examples
        --------
        >>> curve = PrivacyCurve.from_rdp_function(lambda orders: orders / 18)
        >>> round(curve.epsilon(1e-5), 3)
        1.386
        """
        if not callable(function) or getattr(function, "__hash__", None) is None:
            raise invalid_type("function", "a hashable function of an array of orders", function)
        orders = np.array(default_orders())
        # its values are part of the curve's identity: a function that changes is another curve
        values = check_rdp(function(orders), orders.shape, "the value of the rdp function")
        node = nodes.FromRdpFunction(function, tuple(values.tolist()))
        return cls(node, check_relation(relation))

    @classmethod
    def from_pld(cls, pld, *, relation="zero-out"):
        """Return the cost of a pessimistic ``dp_accounting`` privacy loss distribution.

        Examples
        --------
        >>> from dp_accounting.pld import privacy_loss_distribution as plds
        >>> curve = PrivacyCurve.from_pld(plds.from_laplace_mechanism(1.0))
        >>> round(curve.epsilon(1e-5), 3)
        1.0
        """
        return cls(_events.node_from_pld(pld), check_relation(relation))

    @classmethod
    def from_event(cls, event, *, relation="zero-out"):
        """Return the cost of a ``dp_accounting`` DpEvent.

        Noise in an event is relative to one row's contribution, as in :meth:`gaussian`: under
        "replace-one" distances double.

        Raises
        ------
        PricingError
            For an event without a price under ``relation``, and for RepeatAndSelectDpEvent.

        Examples
        --------
        >>> import dp_accounting
        >>> event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(6.0), 4)
        >>> round(PrivacyCurve.from_event(event).epsilon(1e-5), 3)
        1.271
        """
        return cls(_events.node_from_event(event, check_relation(relation)), relation)

    @classmethod
    def mixture(cls, curves, weights):
        """Return the cost of a public random choice among mechanisms, released with the output.

        Parameters
        ----------
        curves : sequence of PrivacyCurve, all of one relation
        weights : array-like of shape (n_curves,)
            Probabilities of the choice, fixed without looking at the data; they sum to one.

        Examples
        --------
        >>> a, b = PrivacyCurve.pure(1.0), PrivacyCurve.pure(2.0)
        >>> PrivacyCurve.mixture([a, b], [0.5, 0.5]).epsilon(0)
        2.0
        """
        curves = _check_curves(curves)
        try:
            shares = np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError):
            raise invalid_type("weights", "probabilities, one per curve", weights) from None
        if shares.shape != (len(curves),):
            raise invalid_value("weights", f"of shape ({len(curves)},)", weights)
        if not np.all(shares >= 0) or abs(shares.sum() - 1) > 1e-9:
            raise invalid_value("weights", "non-negative numbers that sum to one", weights)
        shares = shares / shares.sum()
        node = _combinations.mixture([curve.node for curve in curves], shares.tolist())
        return cls(node, curves[0].relation)

    @classmethod
    def worst(cls, curves):
        """Return the least curve above all ``curves``: the cost of not knowing which one runs.

        Examples
        --------
        >>> a, b = PrivacyCurve.pure(1.0), PrivacyCurve.gaussian(3.0)
        >>> PrivacyCurve.worst([a, b]).epsilon(1e-5) >= a.epsilon(1e-5)
        True
        """
        curves = _check_curves(curves)
        return cls(_combinations.worst([curve.node for curve in curves]), curves[0].relation)

    # Combination --------------------------------------------------------------------------

    def __add__(self, other):
        if not isinstance(other, PrivacyCurve):
            return NotImplemented
        _check_curves([self, other])
        return PrivacyCurve(_combinations.compose([(self.node, 1), (other.node, 1)]), self.relation)

    def __mul__(self, count):
        count = check_integer("count", count, low=0)
        return PrivacyCurve(_combinations.compose([(self.node, count)]), self.relation)

    __rmul__ = __mul__

    def to_relation(self, relation):
        """Return the cost under another neighbouring relation, where this one implies it.

        Blanking (or dropping) one row and filling in another is a swap, so a cost under
        "zero-out" or "add-remove" gives one under "replace-one". No other step is implied: a
        blank or absent row is not a row that "replace-one" ever compares with, and n is public
        under "zero-out" only.

        Raises
        ------
        RelationMismatchError

        Examples
        --------
        >>> PrivacyCurve.pure(1.0).to_relation("replace-one").epsilon(0)
        2.0
        """
        relation = check_relation(relation)
        if relation == self.relation:
            return self
        if relation != "replace-one":
            raise RelationMismatchError(
                f"relation must be one that {self.relation} implies; got {relation!r}. Only "
                "zero-out and add-remove imply replace-one; build the curve for the relation "
                "that the search uses."
            )
        return PrivacyCurve(self.node.two_steps(), relation)

    # Comparison ---------------------------------------------------------------------------

    def lies_below(self, level):
        """Return whether this curve is certainly below ``level`` everywhere.

        True means that any price of ``level`` holds for this mechanism too: its profile lies
        under the level's at every epsilon and for both orders of the neighbours, and so does its
        Renyi curve. False may also mean that it could not be shown. Deltas are compared to one
        part in 1e12, and down to 1e-35 where the level's tail is cut.

        Raises
        ------
        RelationMismatchError

        Examples
        --------
        >>> PrivacyCurve.gaussian(3.1).lies_below(PrivacyCurve.gaussian(3.0))
        True
        >>> PrivacyCurve.gaussian(3.0).lies_below(PrivacyCurve.pure(1.0))
        False
        """
        _check_curves([self, level])
        if self == level:
            return True
        if isinstance(level.node, _combinations.Worst):  # it is answered by its parts, not by its pair
            parts = [PrivacyCurve(node, level.relation) for node in level.node.nodes]
            return any(self.lies_below(part) for part in parts)
        if level.node.answers_itself:  # its answers may be smaller than those of its pair
            return False
        orders = np.array([*self._orders(), *level._orders(), np.inf])
        if self.delta_zero > level.delta_zero:
            return False
        if not np.all(self.rdp(orders) <= level.rdp(orders)):
            return False
        return level.pair is None or self._profile_below(level.pair)

    def _profile_below(self, pair):
        """Compare with a pair at its atoms: it is linear in e^eps between them, we are convex."""
        mine, pure = self.pair, self.rdp([np.inf])[0]
        for swapped in (False, True):
            other = pair.swap() if swapped else pair
            points = np.concatenate([[0.0], other.losses[other.losses >= 0]])
            if mine is None:
                ours = self._rdp_profile(points)
            else:
                side = mine.swap() if swapped else mine
                ours = side.delta(points) - side.rounding(points)
            ours = np.where(points >= pure, np.minimum(ours, self.delta_zero), ours)
            # a tail that is cut hides what is below the cut; one that ends must end for us too
            hidden = _CUT if other.p_infinite > 0 else 0.0
            if not np.all(ours <= other.delta(points) * (1 + 1e-12) + hidden):
                return False
        return True

    def _rdp_profile(self, points):
        """Upper bound of the profile at many epsilons from the Renyi curve."""
        orders = np.array(self._orders())
        return profile_from_rdp(orders, self.rdp(orders), points, self.delta_zero)

    # Value --------------------------------------------------------------------------------

    def _curve_of(self, node):
        return PrivacyCurve(node, self.relation)

    @functools.cached_property
    def key(self):
        """A hashable value; equal curves have equal keys."""
        return (self.relation, self.node.key)

    def __eq__(self, other):
        return self.key == other.key if isinstance(other, PrivacyCurve) else NotImplemented

    def __hash__(self):
        return hash(self.key)

    def __reduce__(self):
        return (type(self), (self.node, self.relation))

    def __repr__(self):
        return f"<PrivacyCurve {self.node.describe()}, {self.relation}>"


def _check_noise(name, value):
    """Return a noise level whose square is a number with all its digits."""
    noise = check_real(name, value, low=0, low_open=True)
    return check_real(name, noise, low=_LEAST_NOISE, high=_MOST_NOISE, advice=_NOISE_ADVICE)


def _check_curves(curves):
    """Return a non-empty list of curves of one relation."""
    try:
        curves = list(curves)
    except TypeError:
        raise invalid_type("curves", "a sequence of PrivacyCurve", curves) from None
    if not curves:
        raise invalid_value("curves", "at least one PrivacyCurve", curves)
    for curve in curves:
        check_instance("curves", curve, PrivacyCurve, "PrivacyCurve objects only")
    relations = sorted({curve.relation for curve in curves})
    if len(relations) > 1:
        raise RelationMismatchError(
            f"curves must all have one relation; got {' and '.join(relations)}. "
            "Build them for one relation, or convert with curve.to_relation(...)."
        )
    return curves
