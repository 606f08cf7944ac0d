"""What a report shows, in order: blocks made from the document, the same for HTML and Markdown."""

import math

from skdptune._rounding import (
    as_given,
    decimals,
    nats_up,
    number,
    one_in,
    percent_as_given,
    percent_down,
    percent_up,
    plain_as_given,
    power_up,
    significant_up,
)
from skdptune.model_selection._spent import TOGETHER
from skdptune.report import _words
from skdptune.report._blocks import Bullets, Headline, Notice, Paragraph, Section, Signature, Table
from skdptune.report._figure import TradeOffFigure

__all__ = ["sections"]

_STAGES = {
    "quote": "Quote, before any data was used",
    "spent": "Price of a search that has been made",
    "inner": "Price of a search inside another search",
}
_LONG = 300


def sections(found, curves):
    """Return the blocks of a report.

    Parameters
    ----------
    found : dict
        The document.
    curves : tuple of PrivacyCurve
        Of all that was released and of one try, for the figure.

    Returns
    -------
    tuple
    """
    return (
        Paragraph(_words.WHAT_IT_IS),
        *(Notice(text) for text in found["warnings"]),
        _headline(found),
        _about(found),
        _released(found),
        _guarantee(found),
        _attacker(found, curves),
        _prices(found),
        *_ledger(found),
        _search(found),
        Section("What this does not cover", (Bullets(found["not_covered"]),)),
        _assumptions(found),
        _versions(found),
        Section("Sign-off", (Signature(_words.SIGNATURES),)),
    )


def _headline(found):
    what = "the whole search" if found["test_score"] is None else "the search and the test score together"
    return Headline("epsilon", nats_up(found["epsilon"]), f"at delta = {plain_as_given(found['delta'])}, for {what}")


def _released_name(found):
    return "Whole search" if found["test_score"] is None else "Search and test score"


def _about(found):
    test = found["test_score"]
    rows = [("Status", _STAGES[found["stage"]] + ("" if test is None else ", and of a test score"))]
    names = {
        "data": "Data",
        "prepared_for": "Prepared for",
        "prepared_by": "Prepared by",
        "date": "Date",
        "notes": "Notes",
    }
    rows += [(label, found[key]) for key, label in names.items() if found[key] is not None]
    rows.append(("Neighbouring data sets", found["relation"]))
    count = "private" if found["relation"] == "add-remove" else number(found["n_samples"], 15)
    if test is None:
        rows.append(("Rows", count))
    else:
        rows.append(("Searched rows", count))
        rows.append(("Test rows", "private" if test["rows"] is None else number(test["rows"], 15)))
    return Table("What this report is about", ("", ""), tuple(rows), kind="facts")


def _released(found):
    intro = "Nothing has been released yet. A fit releases, once:" if found["stage"] == "quote" else "Released, once:"
    settings = found["settings"] or {}
    if math.isfinite(found["epsilon"]):
        kind = "private rows" if found["test_score"] is None else "private rows (searched rows and test rows together)"
        but = ", the seed excepted" if settings.get("seeded") else ""
        protected = (
            f"Every person with exactly one row among the {kind} is protected, as far as the numbers below say, "
            f"against everybody who sees what was released, whatever else they know{but}; not against those who hold "
            "the rows."
        )
    else:
        protected = "Nobody is known to be protected at this delta."
    never = "Never released, and the price holds only as long as it stays so: " + "; ".join(found["never_published"])
    return Section(
        "What is released, and whom it concerns",
        (
            Paragraph(intro),
            Bullets(tuple(found["released"])),
            *_published(found),
            Paragraph(never + "."),
            Paragraph(protected),
        ),
    )


def _published(found):
    """Show the values that were released, as far as the report was given them: they are covered by the price."""
    rows, published, test = [], found["published"], found["test_score"]
    if published is not None:
        params = published["best_params"]
        rows += [(entry["parameter"], entry["value"]) for entry in params or ()]
        score = "none: no try succeeded" if params is None else number(published["best_score"], 6)
        rows.append(("Score of the best try", score))
    elif test is not None:
        rows.append(("Best try", "its settings and its noisy score were released as well (published= shows them)"))
    if test is not None and test["score"] is not None:
        rows.append(("Test score", number(test["score"], 6)))
    caption = "The values that were released; scores as they came, with noise; greater is better: an error has a minus"
    return (Table(caption, ("", ""), tuple(rows), kind="facts"),) if rows else ()


_CASES = {
    "zero-out": "with that person's row in place and with the row blanked out (it still counts as a row, but nothing "
    "it says is used)",
    "replace-one": "with that person's row and with any other row in its place",
    "add-remove": "with that person's row and without it",
}


def _guarantee(found):
    epsilon, delta = found["epsilon"], found["delta"]
    if not math.isfinite(epsilon):
        text = f"No guarantee is known at delta = {plain_as_given(delta)}."
        return Section("What the guarantee says", (Paragraph(text),))
    written = nats_up(epsilon)
    factor = power_up(float(written))  # of the printed epsilon, so that a reader finds the same; rounded up
    plus = f", plus delta = {plain_as_given(delta)}" if delta else ""
    text = (
        f"Take any one person, and any yes-or-no question about what is released. Compare the chance of a yes "
        f"{_CASES[found['relation']]}. The larger chance is at most {factor} times the smaller one{plus}. "
        f"(The factor is e to the power epsilon, with epsilon = {written}.)"
    )
    meaning = [
        "epsilon limits how much a release can say about one person: 0 is nothing, and each further unit makes the "
        "factor 2.72 times as large."
    ]
    if delta:
        meaning.append(
            f"delta is an allowance on top of that limit. It bounds the chance that a release gives a given person "
            f"away outright: {plain_as_given(delta)}, which is 1 in {_grouped(one_in(delta))}."
        )
    else:
        meaning.append("delta is 0: there is no allowance on top of that limit.")
    meaning.append(
        "It holds for each person alike, and whatever anybody knows already or learns later from elsewhere."
    )
    return Section("What the guarantee says", (Paragraph(text), Bullets(tuple(meaning))))


def _attacker(found, curves):
    question = _words.QUESTIONS[found["relation"]]
    name, single = _released_name(found), found["attacker"]["single_run"]
    whole = found["attacker"]["together"] or found["attacker"]["whole_search"]
    intro = (
        "The strongest attacker knows all settings, every other row and the row in question, and only has to tell "
        f"{question}. No such attacker does better than this. One try alone is given for comparison: it is not what "
        "is released."
    )
    rows = [
        ("Advantage: true positives minus false positives", whole["advantage"], single["advantage"]),
        ("Right guesses where both cases are equally likely", whole["correct_guesses"], single["correct_guesses"]),
    ]
    for ours, theirs in zip(whole["true_positive_rates"], single["true_positive_rates"], strict=True):
        rate = f"True positives at {_share(ours['false_positive_rate'])} false positives"
        rows.append((rate, ours["true_positive_rate"], theirs["true_positive_rate"]))
    shown = tuple((what, percent_up(a), percent_up(b)) for what, a, b in rows)
    success = Table("An attacker's success, at most", ("", name, "One try"), shown)
    errors = tuple(
        (_share(ours["type_one"]), percent_down(ours["type_two"]), percent_down(theirs["type_two"]))
        for ours, theirs in zip(whole["trade_off"], single["trade_off"], strict=True)
    )
    trade = Table(
        "f-DP trade-off: rate of missed true cases (type II), at least, for a rate of false alarms (type I)",
        ("False alarms", name, "One try"),
        errors,
    )
    return Section(
        "What an attacker can learn",
        (Paragraph(intro), success, TradeOffFigure.of(*curves, name.lower()), _beliefs(found, whole), trade),
    )


def _beliefs(found, whole):
    shares = list(dict.fromkeys(row["share_set_aside"] for row in whole["beliefs"]))
    table = {(row["prior"], row["share_set_aside"]): row["posterior"] for row in whole["beliefs"]}
    priors = list(dict.fromkeys(row["prior"] for row in whole["beliefs"]))
    names = ["always" if s == 0 else f"in all but {_aside(s)} releases" for s in shares]
    rows = tuple((_share(prior), *(_belief(table[prior, share]) for share in shares)) for prior in priors)
    return Table(
        f"Belief in the truth after the release, at most, by the belief before it ({_released_name(found).lower()})",
        ("Before", *names),
        rows,
    )


def _grouped(digits):
    return f"{int(digits):,}" if digits.isdigit() else digits


def _share(share):
    return percent_as_given(share) if share >= 0.001 else plain_as_given(share)


def _aside(share):
    return f"{_share(share)} of" if share >= 0.001 else f"1 in {_grouped(one_in(share))}"  # a larger share: it holds


def _belief(value):
    return "no limit" if value >= 1.0 else percent_up(value)


def _prices(found):
    refitted = any(row["refit"] is not None for row in found["prices"])
    columns = ("delta", "Whole search", "One try", "Closed form")
    rows, strong = [], None
    for index, row in enumerate(found["prices"]):
        closed = "none" if row["closed_form"] is None else nats_up(row["closed_form"])
        rows.append((plain_as_given(row["delta"]), nats_up(row["whole_search"]), nats_up(row["single_run"]), closed))
        strong = index if row["delta"] == found["delta"] else strong
    method = _words.METHODS.get(found["method"], found["method"])
    alone = found["test_score"] is None
    text = (
        f"{'Priced' if alone else 'The search alone is priced'} by: {method}. Every row of the table holds; they are "
        "points of one curve. The closed form is what the formulas of the literature would have charged for the same "
        "search; none where they do not apply."
    )
    caption = "epsilon at several values of delta, rounded up" if alone else "epsilon of the search alone, rounded up"
    blocks = [] if alone else list(_together(found, strong))
    blocks.append(Table(caption, columns, tuple(rows), strong))
    if refitted:  # a table of its own: six columns are too wide for a phone
        parts = tuple(
            (plain_as_given(r["delta"]), nats_up(r["selection"]), nats_up(r["refit"])) for r in found["prices"]
        )
        caption = "Parts of the whole search's epsilon, rounded up"
        blocks.append(Table(caption, ("delta", "Best of the tries", "Refit"), parts, strong))
    return Section("The price", (*blocks, Paragraph(text)))


def _together(found, strong):
    names = ("delta", "whole_search", "test_score", "together")
    rows = tuple((plain_as_given(row["delta"]), *(nats_up(row[name]) for name in names[1:])) for row in found["prices"])
    columns = ("delta", "Search", "Test score", "Together")
    text = f"Together is {TOGETHER}. The price of the test score is that of its noise."
    return (
        Table("epsilon of the search, the test score and both together, rounded up", columns, rows, strong),
        Paragraph(text),
    )


def _ledger(found):
    """Say which ledger was charged how much, and why its numbers are not the headline's."""
    ledger = found["ledger"]
    if ledger is None:
        return ()
    endless = ledger["order"] == "inf"
    at = plain_as_given(ledger["delta"])
    rows = [
        ("Data set", ledger["dataset"] or "not named"),
        ("Ledger", ledger["identity"]),
        ("Its budget", f"epsilon {as_given(ledger['epsilon'])} at delta {at}, for all it is ever charged together"),
        ("It adds up", "epsilons and deltas" if endless else f"Renyi divergences at order {as_given(ledger['order'])}"),
    ]
    spent, left = nats_up(float(ledger["spent"])), decimals(float(ledger["remaining"]), 4, up=False)
    n_entries = f"{ledger['n_entries']} entr{'y' if ledger['n_entries'] == 1 else 'ies'}"
    rows.append(("Spent when this report was made", f"epsilon {spent} at delta {at}, in {n_entries}"))
    rows.append(("Left then", f"epsilon {left} at delta {at} (rounded down)"))
    for entry in ledger["entries"]:
        rows.append((f"Newest charge of the price of the {entry['what']}", _charge(entry, ledger, endless)))
        alone = f"epsilon {nats_up(float(entry['epsilon']))} at delta {at}"
        rows.append((f"Price of the {entry['what']} by itself", alone))
    if ledger["delta"] == found["delta"]:
        why = f"This report and the ledger both read prices at delta = {at}, so that they agree on every epsilon."
    else:
        why = (
            "The numbers of the ledger and of this report do not contradict each other. A price is a curve: a smaller "
            f"delta goes with a larger epsilon. This report reads it at delta = {plain_as_given(found['delta'])}, the "
            f"ledger at its own, delta = {at}; both hold."
        )
    why += (
        " What a ledger adds up is the amount charged, in a unit whose sums hold also for searches that are chosen "
        "after seeing the results of others. For everything charged to it together, its budget is the number to state."
    )
    why += (
        " An entry names a price and no search: it is found by the price, and that it was made for this search, and "
        "for no other of the same price, is for the curator to say."
    )
    if len(ledger["entries"]) == 1 and found["test_score"] is not None:
        other = "test score" if ledger["entries"][0]["what"] == "search" else "search"
        why += f" The {other} has no entry of its own in this ledger."
    table = Table("The ledger", ("", ""), tuple(rows), kind="facts")
    return (Section("What the ledger was charged", (table, Paragraph(why))),)


def _charge(entry, ledger, endless):
    start = f"entry {entry['entry']}: "
    if entry["method"] == "plan":
        return f"{start}paid for by the plan that was registered"
    if entry["method"] == "sole":
        return f"{start}the whole budget, as the one charge that is ever made"
    aside = f" and a delta of {plain_as_given(entry['delta_charged'])}" if entry["delta_charged"] else ""
    charged = significant_up(float(entry["charged"]), 6)
    return f"{start}epsilon {charged}{aside}" if endless else f"{start}{charged} nats at that order{aside}"


def _search(found):
    tries, settings = found["tries"], found["settings"]
    if tries["largest"] is not None and tries["largest"] <= 1:
        hidden = "There is never more than one try, so no number of tries has to be hidden."
    elif tries["certain"]:
        hidden = f"The number of tries is fixed at {tries['largest']}: there is no chance in it to hide."
    else:
        hidden = (
            "The number of tries is drawn at random from this distribution before the first try, without looking at "
            "the rows. It is not released, and no try that lost is. The price holds only while that stays so. Running "
            "time grows with the number of tries, so it is not released either. The score of the best try hints at how "
            "many there were: the price covers what it hints."
        )
    if tries["none_at_all"] > 0:
        none = number(tries["none_at_all"], 3)
        hidden += f" With probability {none} there is no try at all, which shows in what is released."
    rows = [
        ("Number of tries drawn from", _cut(tries["in_words"])),
        ("Mean", number(tries["mean"])),
        ("Half of searches within", number(tries["median"], 15)),
        ("99 % of searches within", number(tries["within_99_percent"], 15)),
        ("Never more than", "no limit" if tries["largest"] is None else str(tries["largest"])),
    ]
    blocks = [Table("How many tries", ("", ""), tuple(rows), kind="facts"), Paragraph(hidden)]
    return Section("The search", (*blocks, *_settings(found, settings)))


def _settings(found, settings):
    if settings is None:
        return ()
    rows = [("Candidate", settings["estimator"])]
    rows += [(f"Searched: {entry['parameter']}", entry["drawn_from"]) for entry in settings["space"]]
    rows += [("Scored by", settings["scoring"]), ("Split", settings["split"])]
    model = _words.RELEASED_MODELS[settings["released_model"]]
    published = found["published"]
    if published is not None and published["best_params"] is None and settings["released_model"] != "none":
        model = _words.CONSTANT
    rows.append(("Model released", model))
    noise = found["score_noise"]
    if noise is None:
        rows.append(("Noise on the score", "none: it is computed on public rows"))
    else:
        rows.append(("Noise on the score", noise["noise"] + _spread(noise, found["relation"] == "add-remove")))
    rows += _test_settings(found)
    labels = settings["labels"]
    if labels is not None:
        source = "declared" if labels["declared"] else "found in y, and taken to be public"
        rows.append(("Labels", f"{labels['number']}, {source}"))
    target = settings["target"]
    if target is not None:
        goal = f"epsilon {as_given(target['epsilon'])} at delta {plain_as_given(target['delta'])} for the whole search"
        rows.append(("Calibrated to", goal))
        rows.append(("Every try costs at most", target["level"]))
    seed = "GIVEN: must stay secret" if settings["seeded"] else "none; fresh secret randomness of the operating system"
    rows.append(("Random seed", seed))
    table = Table("Settings, all of them public", ("", ""), tuple(rows), kind="facts")
    return (table, Paragraph(_words.OWN_EPSILON)) if settings["own_epsilon"] else (table,)


def _test_settings(found):
    test = found["test_score"]
    if test is None:
        return []
    noise = {"standard_deviation": test["standard_deviation"], "scored_rows": test["divisor"]}
    return [
        ("Test score", test["scoring"]),
        ("Noise on the test score", test["noise"] + _spread(noise, found["relation"] == "add-remove")),
    ]


def _spread(noise, private):
    if noise["standard_deviation"] is None:
        return ""
    deviation = significant_up(noise["standard_deviation"], 2)
    rows = f"{noise['scored_rows']} rows scored"
    if private:  # the divisor is a guess: the true number is nobody's business
        rows = f"a public guess of {rows}"
    return f": standard deviation {deviation} of the score's range, with {rows}"


def _cut(text):
    return text if len(text) <= _LONG else f"{text[:_LONG]}... ({len(text)} characters, in full in the JSON form)"


def _assumptions(found):
    if not found["assumptions"]:
        return Section("What it rests on", (Paragraph("No assumptions are listed."),))
    intro = "The guarantee holds if each of these does. They are for the reviewer to check."
    return Section("What it rests on", (Paragraph(intro), Bullets(tuple(found["assumptions"]), numbered=True)))


def _versions(found):
    text = ", ".join(f"{name} {value}" for name, value in found["versions"].items()) or "not recorded"
    return Section("Made with", (Paragraph(text), Bullets(tuple(found["references"]))))
