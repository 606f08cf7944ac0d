"""``calibrate``: the least noise with which the whole search meets a target."""

from skdptune._cli._codes import Answer, as_options, ask_for_patience
from skdptune._cli._run_counts import run_count_of, say
from skdptune._cli._tables import noted, notes_on, round_safely, table, up, wrapped
from skdptune._rounding import as_given

__all__ = ["calibrate"]


def calibrate(arguments):
    """Return the Answer to ``calibrate``."""
    from skdptune import accounting
    from skdptune.accounting import best_of

    mechanism = arguments.mechanism
    delta, target = float(arguments.delta), float(arguments.target)
    values = mechanism.given(arguments)
    family = mechanism.family(values, arguments.relation)
    count = run_count_of(arguments)
    ask_for_patience(count)
    with as_options(target_epsilon="--target"):
        found = accounting.calibrate(family, count, target, delta, refit=arguments.refit)

    def whole_search(x):
        search = best_of(family(x), count)
        return search + family(x) if arguments.refit else search

    setting = _in_few_digits(found, mechanism.more_is_safer, lambda x: whole_search(x).epsilon(delta) <= target)
    curve, whole = family(setting), whole_search(setting)
    tries, sentence = say(count)
    data = {
        "command": "calibrate",
        "mechanism": {"name": mechanism.name, **values, mechanism.free.name: setting},
        "parameter": mechanism.free.name,
        "setting": setting,
        "relation": curve.relation,
        "delta": delta,
        **tries,
        "refit": arguments.refit,
        "target_epsilon": target,
        "epsilon": whole.epsilon(delta),
        "single_run_epsilon": curve.epsilon(delta),
        "notes": notes_on(whole, delta),
    }
    return Answer(data, _text(data, curve, sentence, mechanism))


def _in_few_digits(found, upwards, meets):
    """Round the setting to the safe side, and price what is then printed: only that is promised."""
    for significant in (5, 7, 10):
        rounded = round_safely(found, significant, upwards)
        if meets(rounded):
            return rounded
    return found  # priced by the calibration itself


def _text(data, curve, sentence, mechanism):
    side = "least" if mechanism.more_is_safer else "largest"
    delta = as_given(data["delta"])
    met = f"meets the target {as_given(data['target_epsilon'])} (checked at this setting)"
    rows = [
        ["one run", up(data["single_run_epsilon"], 5), ""],
        ["whole search" + (" and refit" if data["refit"] else ""), up(data["epsilon"], 5), met],
    ]
    return "\n".join(
        [
            f"{data['parameter']} = {data['setting']!r}",
            "",
            wrapped(f"the {side} that meets the target, rounded to the safe side", 9, "is:      "),
            wrapped(f"one run: {mechanism.described(curve)}", 9, ""),
            wrapped(f"tries:   {sentence}", 9, ""),
            wrapped(f"for:     {data['relation']} neighbours, delta = {delta}; epsilons rounded up", 9, ""),
            "",
            table(["", "epsilon", ""], rows, "<><"),
            *noted(data),
        ]
    )
