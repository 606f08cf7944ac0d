"""Choosing how many tries a search makes: a table of what each distribution of K buys.

Three questions, one table. With a *family* of runs (a function from noise to curve) and a target,
every row is calibrated to the target and shows the epsilon left for a single run. With a fixed
*curve*, rows show what the whole search costs; with a target beside it, how much search fits.
"""

import functools
import math
from decimal import Decimal

import numpy as np
from scipy.optimize import minimize_scalar

from skdptune._exceptions import InvalidParameterError, SkdptuneError, UnreachableTargetError
from skdptune._rounding import as_given, decimals, to_places
from skdptune._validation import check_instance, check_integer, check_real, describe, invalid_type
from skdptune.accounting._exact import exact_epsilon
from skdptune.accounting._optimal import NAMED, mean_for, optimal_run_count
from skdptune.accounting._optimal_orders import worst_orders
from skdptune.accounting._plan_table import MEAN_PLACES, Plan
from skdptune.accounting.calibration import calibrate
from skdptune.accounting.curve import PrivacyCurve
from skdptune.accounting.selection import best_of
from skdptune.run_counts import RunCount, TruncatedNegativeBinomial

__all__ = ["Plan", "plan"]

RTOL = 5e-3  # default relative precision of the epsilons in a plan
_QUANTILE = 0.9
_ETAS = (-0.7, 12.0)
_MOST_MEAN = 1e3  # no searched mean beyond this
_LARGEST = float(np.finfo(float).max)


def plan(
    family,
    target_epsilon,
    delta,
    *,
    run_counts=None,
    means=None,
    expected_quantile=None,
    success_share=0.05,
    max_mean=None,
    max_runs_99=None,
    optimise=True,
    rtol=RTOL,
):
    """Return a table of what distributions of the number of tries buy.

    Parameters
    ----------
    family : callable or PrivacyCurve
        ``family(x) -> PrivacyCurve`` of one run, as in :func:`calibrate`: each row is calibrated
        so that its whole search meets the target. Or the curve of one run, which stays fixed.
    target_epsilon : float or None
        Nats, for the whole search at ``delta``. None only with a fixed curve: rows then show the
        search's epsilon. A fixed curve with a target: each distribution takes the largest mean
        that fits, unless ``means`` or ``expected_quantile`` say which to take; then rows above the
        target are shown and never the best.
    delta : float
        In [0, 1).
    run_counts : sequence, optional
        Run counts, or functions ``mean -> RunCount`` such as the class ``Geometric``. None: the
        named distributions.
    means : sequence of float, optional
        Means at which functions in ``run_counts`` are shown. None: the mean at which each reaches
        ``expected_quantile`` (or the largest that fits, see ``target_epsilon``).
    expected_quantile : float, optional
        In (0, 1): E[K / (K + 1)] that the best row must reach. None: 0.9, except for a fixed curve
        with a target, where it is maximised. It ranks tries by their own (noisy) scores; for the
        setting that wins it is an upper limit, see :meth:`RunCount.expected_quantile`.
    success_share : float, default=0.05
        The share of good settings for the column ``success_probability``.
    max_mean, max_runs_99 : float, int, optional
        Caps on E[K] and on its 99 % quantile, in runs. What exceeds them is left out.
    optimise : bool, default=True
        Whether to add the best truncated negative binomial (a search over eta and mean, shown as
        kind "searched") and the best distribution of all (:func:`optimal_run_count`, kind
        "optimal"; its mean is capped by ``max_mean``, or else by the mean of the best other row).
    rtol : float, default=0.005
        Relative precision of every epsilon; 0.002 costs about twice the time.

    Returns
    -------
    Plan
        Rows with ``distribution``, ``kind``, ``run_count``, ``mean``, ``runs_99`` (99 % quantile
        of the number of runs), ``expected_quantile``, ``success_probability``,
        ``single_run_epsilon``, ``search_epsilon`` and, for a family, ``setting`` (its argument).

    Raises
    ------
    InvalidParameterError, InvalidTypeError
        Also if nothing reaches the quantile within the caps; the message states the nearest.
    UnreachableTargetError
        If no setting of the family meets the target, or a fixed curve exceeds it at any mean.

    Notes
    -----
    *Guarantee.* ``search_epsilon`` is an upper bound, and at most the target where one was given;
    a table is nothing that is spent. Settings are found to about ``rtol`` of the target, from the row
    before: with other rows beside it a setting may come out different by as much, and within the
    target all the same. :func:`calibrate` finds the last of it. One row takes 1 to 3 s for a curve of many atoms.

    References
    ----------
    Papernot and Steinke, arXiv 2110.03620v2, on the utility of random numbers of runs.

    Examples
    --------
    >>> from skdptune.run_counts import Geometric, Poisson
    >>> table = plan(PrivacyCurve.gaussian(3.0), None, 1e-5, run_counts=[Geometric, Poisson],
    ...              expected_quantile=0.8, optimise=False)
    >>> for row in table:
    ...     print(row["distribution"], round(row["mean"], 2), round(row["search_epsilon"], 1))
    Geometric 7.76 1.9
    Poisson 4.97 1.9
    >>> table.best["distribution"]
    'Geometric'
    """
    question = _question(family, target_epsilon, delta, expected_quantile, max_mean, max_runs_99)
    success_share = check_real("success_share", success_share, low=0, high=1)
    question["rtol"] = check_real("rtol", rtol, low=0, high=0.5, low_open=True)
    builders = _check_builders(run_counts)
    means = None if means is None else _check_means(means)
    pricer = _Pricer(**question)
    rows, left_out = _table(pricer, builders, means)
    if optimise:
        _add(rows, left_out, "searched", lambda: _searched(pricer))
        _add(rows, left_out, "optimal", lambda: _optimal(pricer, rows))
    if not rows:
        _explain_nothing(pricer, left_out)
    for row in rows:
        row["success_probability"] = float(row["run_count"].success_probability(success_share))
    return Plan(rows, pricer.best_of_rows(rows), pricer.criterion, left_out, pricer.target)


def _add(rows, left_out, kind, make):
    """Append the row of ``make``; a refusal is noted beside the table instead of ending it."""
    if kind == "optimal" and not rows:
        make_row = make  # the last hope: its error says what conflicts
        rows.append(make_row())
        return
    try:
        row = make()
    except SkdptuneError as error:
        left_out.append(f"{kind}: {error}")
        return
    if row is not None:
        rows.append(row)


# -- arguments -------------------------------------------------------------------------------


def _question(family, target_epsilon, delta, expected_quantile, max_mean, max_runs_99):
    fixed = not callable(family)
    if fixed:
        text = "a PrivacyCurve or a function of one number that returns one"
        check_instance("family", family, PrivacyCurve, text)
    if target_epsilon is not None:
        target_epsilon = check_real("target_epsilon", target_epsilon, low=0, low_open=True)
    elif not fixed:
        raise invalid_type("target_epsilon", "a positive number for a family", target_epsilon)
    if expected_quantile is not None:
        expected_quantile = check_real(
            "expected_quantile", expected_quantile, low=0, high=1, low_open=True, high_open=True
        )
    elif not fixed or target_epsilon is None:
        expected_quantile = _QUANTILE
    return {
        "family": family,
        "target": target_epsilon,
        "delta": check_real("delta", delta, low=0, high=1, high_open=True),
        "quantile": expected_quantile,
        "max_mean": None if max_mean is None else check_real("max_mean", max_mean, low=1),
        "max_runs_99": None if max_runs_99 is None else check_integer("max_runs_99", max_runs_99, low=1),
    }


def _check_builders(run_counts):
    if run_counts is None:
        return list(NAMED.values())
    expected = "a sequence of run counts or of functions mean -> RunCount"
    if isinstance(run_counts, (str, bytes)) or not hasattr(run_counts, "__iter__"):
        raise invalid_type("run_counts", expected, run_counts, "Pass e.g. [Poisson, Geometric].")
    builders = list(run_counts)
    for item in builders:
        if not (callable(item) or isinstance(item, RunCount)):
            raise invalid_type("an item of run_counts", "a run count or a function of the mean", item)
    return [item if isinstance(item, RunCount) else functools.partial(_built, item) for item in builders]


def _built(build, mean):
    """Return ``build(mean)``, or say that it is no function of a mean: Fixed and Binomial are not."""
    expected = "a run count, or a function that makes one of any mean from 1 up"
    name = getattr(build, "__name__", None) or describe(build)
    advice = f"Pass distributions with all their numbers, such as {name}(...), in its place."
    try:
        count = build(mean)
    except (TypeError, SkdptuneError) as error:
        said = str(error).rstrip(".")
        raise InvalidParameterError(
            f"an item of run_counts must be {expected}; {name} refuses the mean {mean:.6g} ({said}). {advice}"
        ) from None
    if not isinstance(count, RunCount):
        raise invalid_type(f"what {name}({mean:.6g}) returns", "a run count", count, advice)
    return count


def _check_means(means):
    if isinstance(means, (str, bytes)) or not hasattr(means, "__iter__"):
        raise invalid_type("means", "a sequence of numbers of at least 1", means, "Pass e.g. [3, 10, 30].")
    return [check_real("an item of means", mean, low=1) for mean in means]


# -- pricing ---------------------------------------------------------------------------------


class _Pricer:
    """One question: makes a row of a run count, and says which row is best."""

    def __init__(self, family, target, delta, quantile, max_mean, max_runs_99, rtol):
        self.family, self.target, self.delta = family, target, delta
        self.quantile, self.rtol = quantile, rtol
        self.max_mean, self.max_runs_99 = max_mean, max_runs_99
        self.fixed = isinstance(family, PrivacyCurve)
        self._curves = {}
        self._slope = None
        self._orders = None
        self._last = None  # the last setting found: where the next search starts

    @property
    def fits_most(self):
        """Whether means are chosen as the largest that the target allows."""
        return self.fixed and self.target is not None and self.quantile is None

    @property
    def criterion(self):
        if self.fits_most:
            return "largest expected quantile within the target"
        what = "cheapest search" if self.fixed else "largest single-run epsilon"
        price = "a finite price" if self.target is None else f"a price of at most {as_given(self.target)}"
        return f"{what} among those with an expected quantile of at least {as_given(self.quantile)} and {price}"

    def within_caps(self, count):
        if self.max_mean is not None and count.mean > self.max_mean * (1 + 1e-9):
            return False
        cap = self.max_runs_99
        return cap is None or count.sf(cap) <= 0.01 * (1 + 1e-9)

    def curve(self, x):
        if self.fixed:
            return self.family
        if x not in self._curves:
            curve = self.family(x)
            text = "a function that returns a PrivacyCurve"
            self._curves[x] = check_instance("family", curve, PrivacyCurve, text)
        return self._curves[x]

    def price(self, curve, count):
        """Epsilon of the whole search, to ``rtol``: the exact price where there is a pair."""
        if curve.pair is None:
            return best_of(curve, count).epsilon(self.delta)
        return float(exact_epsilon(curve.pair, count, self.delta, rtol=self.rtol).upper)

    def rough(self, curve):
        """A function run count -> epsilon on a coarse grid (a lower bound within about 0.3 %).

        Milliseconds each: for comparing many run counts; what is reported is priced by
        :meth:`price`.
        """
        if curve.pair is None:
            return lambda count: self.price(curve, count)
        if self._orders is None or self._orders[0] is not curve:
            orders = worst_orders(curve.pair, self.delta, np.array([1.0, 100 * _MOST_MEAN]))
            self._orders = curve, orders
        return self._orders[1].lower_bound

    def row(self, count, kind="named"):
        """Price one run count; calibrated first if there is a family."""
        setting = None if self.fixed else self._short(self._calibrated(count), count)
        curve = self.curve(setting)
        price = self.price(curve, count)
        if not self.fixed and price > self.target:  # calibrated by the finer price
            price = best_of(curve, count).epsilon(self.delta)
        row = {
            "distribution": _label(count),
            "kind": kind,
            "run_count": count,
            "mean": float(count.mean),
            "runs_99": int(count.quantile(0.99)),
            "expected_quantile": float(count.expected_quantile()),
            "success_probability": None,
            "single_run_epsilon": float(curve.epsilon(self.delta)),
            "search_epsilon": price,
        }
        return row if self.fixed else {**row, "setting": setting}

    def reference(self):
        """A curve near the one that a calibrated row will have, for comparing distributions."""
        if not self.fixed and self._last is None:
            self.row(TruncatedNegativeBinomial(10.0, 2.0))
        return self.curve(self._last)

    def _short(self, setting, count):
        """Return a setting of six digits, if the search at it lies within the target, too: it can be copied by hand."""
        exact = Decimal(repr(float(setting)))
        short = float(to_places(exact, 5 - exact.adjusted(), up=not self._slope or self._slope < 0))
        fits = self.price(self.curve(short), count) <= self.target if math.isfinite(short) and short > 0 else False
        return short if fits else setting

    def _calibrated(self, count):
        """A setting whose search lies within the target and within about ``rtol`` of it.

        From the last one by secants in log x and log epsilon; :func:`calibrate` finds the first
        and does what they cannot.
        """
        if self._last is None:
            self._last = calibrate(self.curve, count, self.target, self.delta)
            first, second = (self.curve(y).epsilon(self.delta) for y in (self._last, 1.1 * self._last))
            usual = 0 < first < math.inf and 0 < second < math.inf
            self._slope = math.log(second / first) / math.log(1.1) if usual else None
        x = self._by_secants(count)
        self._last = calibrate(self.curve, count, self.target, self.delta) if x is None else x
        return self._last

    def _by_secants(self, count):
        if not self._slope:
            return None
        x, slope, before = self._last, self._slope, None
        for _ in range(8):
            value = self.price(self.curve(x), count)
            if not 0 < value < math.inf:
                return None
            if (1 - self.rtol) * self.target <= value <= self.target:
                return x
            miss = math.log(self.target * (1 - 0.4 * self.rtol)) - math.log(value)
            if before is not None and x != before[0]:
                run = math.log(x) - math.log(before[0])
                rise = math.log(value) - math.log(before[1])
                slope = rise / run if rise / run * self._slope > 0 else self._slope
            before = x, value
            x = x * math.exp(max(min(miss / slope, 1.0), -1.0))
        return None

    def best_of_rows(self, rows):
        """Index of the best row by the criterion, or None."""

        def score(row):
            if self.quantile is not None and row["expected_quantile"] < self.quantile * (1 - 1e-7):
                return -math.inf
            if row["search_epsilon"] > (_LARGEST if self.target is None else self.target):
                return -math.inf
            if self.fits_most:
                return row["expected_quantile"]
            return -row["search_epsilon"] if self.fixed else row["single_run_epsilon"]

        scores = [score(row) for row in rows]
        top = max(scores)
        return scores.index(top) if top > -math.inf else None


def _label(count):
    """Name of a distribution without its mean or its table of probabilities."""
    kept = {name: v for name, v in count._arguments().items() if name not in ("mean", "pmf")}
    if "wishes" in kept:
        return "optimal"
    inside = ", ".join(f"{n}={v:.6g}" if isinstance(v, float) else f"{n}={v!r}" for n, v in kept.items())
    name = type(count).__name__
    return f"{name}({inside})" if inside else name


# -- rows ------------------------------------------------------------------------------------


def _table(pricer, builders, means):
    rows, left_out = [], []
    for item in builders:
        if isinstance(item, RunCount):
            wanted = [item]
        elif means is not None:
            wanted = [item(mean) for mean in means]
        else:
            wanted = [_at_its_mean(pricer, item)]
        for count in wanted:
            if isinstance(count, str):
                left_out.append(count)
            elif not pricer.within_caps(count):
                left_out.append(f"{_label(count)} at mean {count.mean:.4g} exceeds the caps")
            else:
                rows.append(pricer.row(count))
    return rows, left_out


def _at_its_mean(pricer, build):
    """Return ``build(mean)`` at the mean the question implies, or a sentence why there is none."""
    if pricer.fits_most:
        mean = _largest_mean(pricer, build)
        if mean is None:
            return f"{_label(build(2.0))} exceeds the target at any mean"
        return build(mean)
    mean = mean_for(build, {"expected_quantile": pricer.quantile})
    if not math.isfinite(mean):
        return f"{_label(build(2.0))} does not reach the quantile {as_given(pricer.quantile)} at a mean of a million"
    return build(_in_few_digits(pricer, build, mean))


def _in_few_digits(pricer, build, mean):
    """Round a mean that reaches a quantile up, so that a table shows all of it; not beyond a cap."""
    rounded = float(decimals(mean, MEAN_PLACES, up=True))
    return rounded if pricer.within_caps(build(rounded)) else mean


def _largest_mean(pricer, build):
    """Largest mean within target and caps, to ``rtol`` in epsilon; None if not even 1 fits.

    Found on the coarse grid, then lowered until its price fits.
    """
    rough = pricer.rough(pricer.family)
    aim = pricer.target
    for _ in range(6):
        mean = _root_mean(pricer, build, rough, aim)
        if mean is None:
            return None
        mean = max(1.0, float(decimals(mean, MEAN_PLACES, up=False)))
        value = pricer.price(pricer.family, build(mean))
        if value <= pricer.target:
            return mean
        aim *= pricer.target / value * (1 - 0.2 * pricer.rtol)
    return None


def _root_mean(pricer, build, rough, aim):
    """Largest mean, to 1e-4, whose rough epsilon is at most ``aim``; None if there is none."""

    @functools.cache
    def excess(mean):
        count = build(mean)
        return rough(count) / aim - 1 if pricer.within_caps(count) else math.inf

    low, high = 1.0, 4.0
    if excess(low) > 0:
        return None
    while excess(high) <= 0:
        if high >= _MOST_MEAN:
            return high
        low, high = high, 3 * high
    for step in range(40):
        if excess(low) >= -0.1 * pricer.rtol or high / low < 1 + 1e-4:
            break
        share = 0.5
        if math.isfinite(excess(high)) and step % 3 != 2:
            share = (-0.05 * pricer.rtol - excess(low)) / (excess(high) - excess(low))
        middle = low * (high / low) ** min(max(share, 0.05), 0.95)
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    return low


def _searched(pricer):
    """The truncated negative binomial, over eta and mean, that is best by the criterion."""
    rough = pricer.rough(pricer.reference())

    @functools.cache
    def at(log_eta):
        eta = math.exp(log_eta) - 1

        def build(mean):
            return TruncatedNegativeBinomial(mean, eta)

        if pricer.fits_most:
            mean = _root_mean(pricer, build, rough, pricer.target * (1 - 0.2 * pricer.rtol))
        else:
            mean = mean_for(build, {"expected_quantile": pricer.quantile})
        fits = mean is not None and mean <= _MOST_MEAN and pricer.within_caps(build(mean))
        return (build, mean) if fits else None

    def loss(log_eta):
        if at(log_eta) is None:
            return math.inf
        build, mean = at(log_eta)
        return -build(mean).expected_quantile() if pricer.fits_most else rough(build(mean))

    low, high = (math.log(1 + eta) for eta in _ETAS)
    if at(high) is None:
        return None
    if at(low) is None:  # a larger eta needs fewer runs: the smallest one within the caps
        out, low = low, high
        for _ in range(12):
            middle = 0.5 * (out + low)
            out, low = (middle, low) if at(middle) is None else (out, middle)
    options = {"xatol": 0.03, "maxiter": 15}
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options=options)
    best = min((loss(x), x) for x in (float(found.x), low, high))[1]
    eta = float(f"{math.expm1(best):.3g}")  # a table shows all of it
    build, mean = at(math.log1p(eta)) or at(best)
    mean = _largest_mean(pricer, build) if pricer.fits_most else _in_few_digits(pricer, build, mean)
    return None if mean is None else pricer.row(build(mean), "searched")


def _optimal(pricer, rows):
    """The best finite distribution under the caps, with the mean of the best row as a last cap."""
    curve = pricer.reference()
    if curve.pair is None:
        return None
    index = pricer.best_of_rows(rows) if rows else None
    cap = pricer.max_mean
    if cap is None and index is not None:
        cap = rows[index]["mean"]
    cap = None if cap is None else max(cap, 1.0)
    if not pricer.fits_most:
        return pricer.row(_optimal_at(pricer, curve, pricer.quantile, cap), "optimal")
    if index is None:
        return None
    best = _most_quantile(pricer, curve, rows[index]["expected_quantile"], cap)
    return None if best is None else pricer.row(best, "optimal")


def _most_quantile(pricer, curve, quantile, cap):
    """The optimal distribution of the largest quantile within the target, by secants.

    Over x = -log(1 - quantile), in which epsilon is nearly straight.
    """
    best, below, above = None, None, None
    x = -math.log1p(-quantile)
    for _ in range(8):
        try:
            count = _optimal_at(pricer, curve, -math.expm1(-x), cap)
            value = pricer.price(curve, count)
        except InvalidParameterError:  # the caps do not reach that far
            count, value = None, math.inf
        if value <= pricer.target:
            best, below = count, (x, value)
            if value >= pricer.target * (1 - pricer.rtol):
                break
        else:
            above = x, value
        if below is None:
            break
        aim = pricer.target * (1 - 0.4 * pricer.rtol)
        if above is None:
            x = below[0] + max(2.0 * (aim - below[1]), 0.01)
        elif above[0] - below[0] < 1e-3:
            break
        else:
            share = (aim - below[1]) / (above[1] - below[1]) if math.isfinite(above[1]) else 0.5
            x = below[0] + min(max(share, 0.05), 0.95) * (above[0] - below[0])
    return best


def _optimal_at(pricer, curve, quantile, cap):
    return optimal_run_count(
        curve,
        pricer.delta,
        expected_quantile=quantile,
        max_mean=cap,
        max_runs_99=pricer.max_runs_99,
        rtol=pricer.rtol,
    )


def _explain_nothing(pricer, left_out):
    why = "; ".join(left_out) or "run_counts is empty"
    means = "a larger target or less loss per run"
    advice = [f"Allow {means}" if pricer.fits_most else "Ask for a smaller expected_quantile"]
    if pricer.max_mean is not None or pricer.max_runs_99 is not None:
        advice.append("raise max_mean or max_runs_99")
    kind = UnreachableTargetError if pricer.fits_most else InvalidParameterError
    raise kind(f"plan must find some distribution; got none ({why}). {', or '.join(advice)}.")
