"""``price``: what one run and the whole search cost, by every bound there is."""

import math

from skdptune._cli._codes import OK, OVER_LIMIT, Answer
from skdptune._cli._run_counts import run_count_of, say
from skdptune._cli._tables import down, table, up, wrapped

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


def price(arguments):
    """Return the Answer to ``price``."""
    mechanism = arguments.mechanism
    values = mechanism.given(arguments)
    curve = mechanism.curve(values, arguments.relation)
    count = run_count_of(arguments)
    delta = arguments.delta
    single = curve.epsilon(delta)
    found, reasons = _bounds(curve, count, delta, arguments.refit)
    best = min(found, key=found.get) if found else None
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
    data["limit"] = arguments.limit
    over = arguments.limit is not None and not whole <= arguments.limit
    complaint = f"the whole search costs {up(whole)}, above --limit {arguments.limit:g}." if over else ""
    return Answer(data, _text(data, curve, sentence), OVER_LIMIT if over else OK, complaint)


def _bounds(curve, count, delta, refit):
    """Return (name -> epsilon of the whole search, name -> why there is none)."""
    from skdptune._exceptions import SkdptuneError
    from skdptune.accounting import PrivacyCurve, best_of

    found, reasons = {}, {}
    for name, _, alone in BOUNDS:
        base = curve
        if alone:
            if curve.pair is None or curve.delta_zero > 0:  # nothing to tell apart, or no curve without its aside
                continue
            base = PrivacyCurve.from_rdp_function(curve.rdp, relation=curve.relation)
        try:
            search = best_of(base, count, method="rdp" if alone else name)
            found[name] = (search + curve if refit else search).epsilon(delta)
        except SkdptuneError as error:
            reasons[name] = str(error).partition("cannot price this search: ")[2] or str(error)
    return found, reasons


def _lower_bound(curve, count, delta, whole):
    """Return an epsilon below which no analysis of the pair alone can go, or None."""
    from skdptune.accounting._exact import exact_epsilon

    if curve.pair is None or not math.isfinite(whole) or not math.isfinite(count.mean):
        return None
    # never above what was priced: that holds, so the true least lies below it, too
    return min(float(exact_epsilon(curve.pair, count, delta).lower), whole)


def _text(data, curve, sentence):
    described = curve.node.describe()
    lines = [
        wrapped(f"one run: {described}", 9, ""),
        wrapped(f"tries:   {sentence}", 9, ""),
        wrapped(f"for:     {data['relation']} neighbours, delta = {data['delta']:g}; epsilons are rounded up", 9, ""),
        "",
    ]
    rows = [["one run", up(data["single_run_epsilon"]), ""]]
    label = "search and refit" if data["refit"] else "search"
    for name, title, _ in BOUNDS:
        value, reason = data["bounds"][name], data["unavailable"].get(name)
        if value is not None:
            verdict = "valid" if math.isfinite(value) else "no finite bound"
            verdict = "valid, smallest: the price" if name == data["method"] else verdict
            rows.append([f"{label}, {title}", up(value), verdict])
        elif reason is not None and name != "composition":  # a last resort: no news where it is missing
            rows.append([f"{label}, {title}", "-", f"not available: {reason}"])
    if data["lower_bound"] is not None:
        verdict = "no analysis of the pair goes below (rounded down)"
        rows.append(["lower bound", down(data["lower_bound"]), verdict])
    return "\n".join([*lines, table(["bound", "epsilon", ""], rows, "<><")])
