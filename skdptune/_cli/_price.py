"""``price``: what one run and the whole search cost, by every bound there is."""

import math
import re

from skdptune._cli._codes import OK, OVER_LIMIT, REFUSED, Answer, ask_for_patience
from skdptune._cli._run_counts import run_count_of, say
from skdptune._cli._tables import down, noted, notes_on, table, up, wrapped
from skdptune._rounding import as_given

__all__ = ["price"]

# name, what it is called, asked from the Renyi curve alone
BOUNDS = (
    ("closed_form", "closed form", False),
    ("rdp_curve", "Renyi, curve alone", True),
    ("rdp", "Renyi, curve and pair", False),
    ("profile", "profile", False),
    ("composition", "all tries released", False),
    ("exact", "exact", False),
)


# advice for those who call best_of: this command tries every method by itself
_PYTHON = re.compile(r"(?::| or)(?: use)? method=.*$")


def price(arguments):
    """Return the Answer to ``price``."""
    mechanism, limit = arguments.mechanism, arguments.limit
    values = mechanism.given(arguments)
    curve = mechanism.curve(values, arguments.relation)
    count = run_count_of(arguments)
    ask_for_patience(count)
    delta = float(arguments.delta)
    single = curve.epsilon(delta)
    found, reasons, curves = _bounds(curve, count, delta, arguments.refit)
    best = min((name for name in found if math.isfinite(found[name])), key=found.get, default=None)
    whole = math.inf if best is None else found[best]
    tries, sentence = say(count)
    data = {
        "command": "price",
        "mechanism": {"name": mechanism.name, **values},
        "relation": curve.relation,
        "delta": delta,
        **tries,
        "refit": arguments.refit,
        "single_run_epsilon": single,
        "epsilon": whole,
        "method": best,
        "bounds": {name: found.get(name) for name, _, _ in BOUNDS},
        "unavailable": reasons,
        "lower_bound": None if arguments.refit else _lower_bound(curve, count, delta, whole),
    }
    data["limit"] = limit
    data["notes"] = [] if best is None else notes_on(curves[best], delta)  # no price at all is a complaint of its own
    code, complaint = _verdict(whole, delta, limit)
    return Answer(data, _text(data, curve, sentence, mechanism), code, complaint)


def _verdict(whole, delta, limit):
    """Return (exit code, complaint): a guard in a script must not take infinity for an answer."""
    if limit is not None and not whole <= limit:
        return OVER_LIMIT, f"the whole search costs {up(whole)}, above --limit {as_given(limit)}."
    if whole == math.inf:
        return REFUSED, f"this search has no finite price at delta = {as_given(delta)}. Raise --delta, or add noise."
    return OK, ""


def _bounds(curve, count, delta, refit):
    """Return (name -> epsilon of the whole search, name -> why there is none, name -> its curve)."""
    from skdptune._exceptions import SkdptuneError
    from skdptune.accounting import PrivacyCurve, best_of

    found, reasons, curves = {}, {}, {}
    for name, _, alone in BOUNDS:
        base = curve
        if alone:
            if curve.pair is None or curve.delta_zero > 0:  # nothing to tell apart, or no curve without its aside
                continue
            base = PrivacyCurve.from_rdp_function(curve.rdp, relation=curve.relation)
        try:
            search = best_of(base, count, method="rdp" if alone else name)
            curves[name] = search + curve if refit else search
            found[name] = curves[name].epsilon(delta)
        except SkdptuneError as error:
            reason = str(error).partition("cannot price this search: ")[2] or str(error)
            reasons[name] = _PYTHON.sub(".", reason)
    return found, reasons, curves


def _lower_bound(curve, count, delta, whole):
    """Return an epsilon below which no analysis of the pair alone can go, or None."""
    from skdptune.accounting._exact import exact_epsilon

    if curve.pair is None or not math.isfinite(whole) or not math.isfinite(count.mean):
        return None
    # never above what was priced: that holds, so the true least lies below it, too
    return min(float(exact_epsilon(curve.pair, count, delta).lower), whole)


def _text(data, curve, sentence, mechanism):
    described, delta = mechanism.described(curve), as_given(data["delta"])
    lines = [
        wrapped(f"one run: {described}", 9, ""),
        wrapped(f"tries:   {sentence}", 9, ""),
        wrapped(f"for:     {data['relation']} neighbours, delta = {delta}; epsilons are rounded up", 9, ""),
    ]
    if data["epsilon"] == 0 and data["single_run_epsilon"] == 0 and curve.epsilon(0.0) == 0:
        text = "a run of epsilon 0 tells nothing, nor does a search of such runs; what some bounds add is conversion"
        lines.append(wrapped(f"note:    {text} and rounding", 9, ""))
    if data["refit"]:
        text = (
            "refit:   each bound of the search is composed with one more run; composing rounds up, so that the bound "
            "that is smallest for the search alone need not be smallest here"
        )
        lines.append(wrapped(text, 9, ""))
    lines.append("")
    rows = [["one run", up(data["single_run_epsilon"]), ""]]
    label = "search and refit" if data["refit"] else "search"
    for name, title, _ in BOUNDS:
        value, reason = data["bounds"][name], data["unavailable"].get(name)
        if value is not None:
            verdict = "valid" if math.isfinite(value) else "no finite bound at this delta"
            verdict = "valid, smallest: the price" if name == data["method"] else verdict
            rows.append([f"{label}, {title}", up(value), verdict])
        elif reason is not None and name != "composition":  # a last resort: no news where it is missing
            rows.append([f"{label}, {title}", "-", f"not available: {reason}"])
    if data["lower_bound"] is not None:
        verdict = "no price that knows one run only by its cost is smaller (rounded down)"
        rows.append(["lower bound", down(data["lower_bound"]), verdict])
    return "\n".join([*lines, table(["bound", "epsilon", ""], rows, "<><"), *noted(data)])
