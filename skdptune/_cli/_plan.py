"""``plan``: what each distribution of the number of tries buys."""

from skdptune._cli._codes import Answer
from skdptune._cli._run_counts import as_dict, builder
from skdptune._cli._tables import round_safely, table, up, wrapped

__all__ = ["plan"]

_DIGITS = 5
_SHORT = {"TruncatedNegativeBinomial": "TNB", "ZeroTruncatedPoisson": "Poisson>0"}


def plan(arguments):
    """Return the Answer to ``plan``."""
    from skdptune import accounting

    mechanism = arguments.mechanism
    values = mechanism.given(arguments)
    fixed = mechanism.free.name in values
    family = (mechanism.curve if fixed else mechanism.family)(values, arguments.relation)
    names = arguments.run_counts
    found = accounting.plan(
        family,
        arguments.target,
        arguments.delta,
        run_counts=None if names is None else [builder(name) for name in names],
        means=arguments.means,
        expected_quantile=arguments.expected_quantile,
        success_share=arguments.success_share,
        max_mean=arguments.max_mean,
        max_runs_99=arguments.max_runs_99,
        optimise=arguments.optimise,
    )
    best = found.best
    rows = [_row(row, mechanism, row == best) for row in found]
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
    }
    return Answer(data, _text(data))


def _row(row, mechanism, best):
    shown = {name: value for name, value in row.items() if name != "run_count"}
    shown["run_count"] = as_dict(row["run_count"])
    if shown.get("setting") is not None:
        # towards less loss, so that the epsilon beside it still holds
        shown["setting"] = round_safely(shown["setting"], _DIGITS, mechanism.more_is_safer)
    return {**shown, "best": best}


def _short(name):
    for long, short in _SHORT.items():
        name = name.replace(long, short)
    return name


def _text(data):
    setting = data["parameter"]
    headers = ["", "distribution", "mean\ntries", "99 %\nwithin", "expected\nquantile", "success"]
    headers += ["one run\nepsilon", "search\nepsilon"] + ([setting.replace("_", "\n")] if setting else [])
    rows = [
        [
            "*" if row["best"] else "",
            _short(row["distribution"]),
            f"{row['mean']:.2f}",
            str(row["runs_99"]),
            f"{row['expected_quantile']:.3f}",
            f"{row['success_probability']:.3f}",
            up(row["single_run_epsilon"]),
            up(row["search_epsilon"]),
            *([f"{row['setting']:.5g}"] if setting else []),
        ]
        for row in data["rows"]
    ]
    target = "" if data["target_epsilon"] is None else f", target epsilon {data['target_epsilon']:g}"
    lines = [
        wrapped(f"{data['relation']} neighbours, delta = {data['delta']:g}{target}; epsilons are rounded up"),
        "",
        table(headers, rows, "<<" + ">" * (len(headers) - 2)),
        "",
    ]
    if any(row["best"] for row in data["rows"]):
        lines.append(wrapped(f"* best: {data['criterion']}", 2, ""))
    lines += [wrapped(f"left out: {text}", 2, "") for text in data["left_out"]]
    if any("TNB" in row[1] for row in rows):
        lines.append("TNB: truncated negative binomial")
    if any(">0" in row[1] for row in rows):
        lines.append("Poisson>0: Poisson, given that there is a try at all")
    share = f"{data['success_share']:.3g}"
    lines.append(wrapped(f"success: chance that a try is among the best {share} of all settings", 2, ""))
    return "\n".join(lines)
