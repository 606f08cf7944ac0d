"""``plan``: what each distribution of the number of tries buys."""

import math

from skdptune._cli._checks import plan_options
from skdptune._cli._codes import OK, OVER_LIMIT, REFUSED, Answer
from skdptune._cli._run_counts import as_dict, builder
from skdptune._cli._tables import noted, notes_on, round_safely, table, up, wrapped
from skdptune._exceptions import InvalidParameterError
from skdptune._rounding import as_given, decimals, percent_as_given

__all__ = ["plan"]

_DIGITS = 5
_MANY = 1000  # tries, in the longest of a hundred searches
_SHORT = {"TruncatedNegativeBinomial": "TNB", "ZeroTruncatedPoisson": "Poisson>0"}


def plan(arguments):
    """Return the Answer to ``plan``."""
    from skdptune import accounting

    mechanism = arguments.mechanism
    values = mechanism.given(arguments)
    fixed = mechanism.free.name in values
    family = (mechanism.curve if fixed else mechanism.family)(values, arguments.relation)
    names = arguments.run_counts
    delta, target = float(arguments.delta), arguments.target
    if target is None and not fixed:
        raise InvalidParameterError(f"plan needs --target, or {mechanism.free.flag}, or both; got neither.")
    builders = None if names is None else [builder(name) for name in names]
    with plan_options():
        found = accounting.plan(
            family,
            target,
            delta,
            run_counts=builders,
            means=arguments.means,
            expected_quantile=arguments.expected_quantile,
            success_share=arguments.success_share,
            max_mean=arguments.max_mean,
            max_runs_99=arguments.max_runs_99,
            optimise=arguments.optimise,
        )
    best = found.best
    rows = [_row(row, mechanism, None if fixed else family, delta, row == best) for row in found]
    data = {
        "command": "plan",
        "mechanism": {"name": mechanism.name, **values},
        "parameter": None if fixed else mechanism.free.name,
        "relation": arguments.relation,
        "delta": arguments.delta,
        "target_epsilon": arguments.target,
        "success_share": arguments.success_share,
        "criterion": found.criterion,
        "rows": rows,
        "left_out": list(found.left_out),
        "notes": _notes(found, delta),
    }
    code, complaint = _verdict(found, delta, target)
    return Answer(data, _text(data), code, complaint)


def _verdict(found, delta, target):
    """Return (exit code, complaint), should no row be of use."""
    least = min(row["search_epsilon"] for row in found)
    if least == math.inf:
        return REFUSED, f"no search here has a finite price at delta = {as_given(delta)}. Raise --delta."
    if target is not None and least > target:
        return OVER_LIMIT, f"no search here costs at most --target {as_given(target)}; the cheapest costs {up(least)}."
    return OK, ""


def _notes(found, delta):
    """Return what must be said beside the best row's price, or else beside the cheapest."""
    from skdptune.accounting import PrivacyCurve

    epsilon = (found.best or min(found, key=lambda row: row["search_epsilon"]))["search_epsilon"]
    # what is stated is all that is used: the curve itself may bound an attacker a little better
    return [] if epsilon == math.inf else notes_on(PrivacyCurve.approximate(epsilon, delta), delta)


def _row(row, mechanism, family, delta, best):
    shown = {name: value for name, value in row.items() if name != "run_count"}
    shown["run_count"] = as_dict(row["run_count"])
    if shown.get("setting") is not None:
        # towards less loss, so that the epsilon beside it still holds
        shown["setting"] = round_safely(shown["setting"], _DIGITS, mechanism.more_is_safer)
        # of the setting that is shown: beside one rounded down its epsilon would be stated too high, and not add up
        shown["single_run_epsilon"] = float(family(shown["setting"]).epsilon(delta))
    return {**shown, "best": best}


def _short(name):
    for long, short in _SHORT.items():
        name = name.replace(long, short)
    return name


def _long(data):
    """Return a warning, should the best row be one that few would wait for."""
    for row in data["rows"]:
        if row["best"] and row["runs_99"] > _MANY:
            yield (
                f"running time: the best row trains {row['mean']:,.0f} candidates on average, and one search in 100 "
                f"more than {row['runs_99']:,}; --max-mean or --max-runs-99 bounds that"
            )


def _text(data):
    from skdptune.accounting._plan_table import mean_down

    setting = data["parameter"]
    headers = ["", "distribution", "mean\ntries", "99 %\nwithin", "expected\nquantile", "success"]
    headers += ["one run\nepsilon", "search\nepsilon"] + ([setting.replace("_", "\n")] if setting else [])
    rows = [
        [
            "*" if row["best"] else "",
            _short(row["distribution"]),
            mean_down(row["mean"]),
            str(row["runs_99"]),
            decimals(row["expected_quantile"], 3, up=False),
            decimals(row["success_probability"], 3, up=False),
            up(row["single_run_epsilon"]),
            up(row["search_epsilon"]),
            *([as_given(row["setting"])] if setting else []),
        ]
        for row in data["rows"]
    ]
    target = "" if data["target_epsilon"] is None else f", target epsilon {as_given(data['target_epsilon'])}"
    rounding = "epsilons are rounded up, means and chances down"
    lines = [
        wrapped(f"{data['relation']} neighbours, delta = {as_given(data['delta'])}{target}; {rounding}"),
        "",
        table(headers, rows, "<<" + ">" * (len(headers) - 2)),
        "",
    ]
    found = any(row["best"] for row in data["rows"])
    mark = "* best" if found else "no row qualifies as the best, which would be the"
    lines.append(wrapped(f"{mark}{':' if found else ''} {data['criterion']}", 2, ""))
    lines += [wrapped(text, 2, "") for text in _long(data)]
    lines += [wrapped(f"left out: {text}", 2, "") for text in data["left_out"]]
    if any("TNB" in row[1] for row in rows):
        lines.append("TNB: truncated negative binomial")
    if any(">0" in row[1] for row in rows):
        lines.append("Poisson>0: Poisson, given that there is a try at all")
    ranked = "expected quantile: where the best try stands among all tries by its own noisy score; by its worth, the "
    lines.append(wrapped(ranked + "setting that wins stands no higher on average, and lower with noise", 2, ""))
    share = percent_as_given(data["success_share"])
    lines.append(wrapped(f"success: chance that a try is among the best {share} of all settings", 2, ""))
    return "\n".join([*lines, *noted(data)])
