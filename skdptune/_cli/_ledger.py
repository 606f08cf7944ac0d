"""``ledger show`` and ``ledger export``: reading a privacy ledger; nothing here charges or changes one."""

import csv
import json
import os
import re

from skdptune._cli._codes import Answer, as_options
from skdptune._cli._files import check_target
from skdptune._cli._tables import down, plain, table, up, wrapped
from skdptune._exceptions import InvalidParameterError
from skdptune._rounding import as_given
from skdptune._writing import write_text

__all__ = ["export", "show"]


def show(arguments):
    """Return the Answer to ``ledger show``."""
    ledger = _opened(arguments.path, arguments.head)
    now = ledger.snapshot()  # checked: a ledger that was edited is not read out as if it were true
    data = {
        "command": "ledger show",
        "path": str(arguments.path),
        "dataset": ledger.dataset,
        "identity": ledger.identity,
        "created": ledger.created,
        "relation": ledger.relation,
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "order": ledger.order,
        "spent": now.spent,
        "remaining": now.remaining,
        "head": now.head,
        "kept_head": arguments.head,
        "remarks": list(now.remarks),
        "entries": [entry.to_dict() for entry in now.entries],
    }
    return Answer(data, _text(data, now.entries))


def export(arguments):
    """Return the Answer to ``ledger export``."""
    ledger = _opened(arguments.path, arguments.head)
    if arguments.json and arguments.format == "csv" and arguments.output is None:
        raise InvalidParameterError("--json and --format csv contradict each other; leave one of them out.")
    content = ledger.to_csv() if arguments.format == "csv" else ledger.to_json()
    if arguments.output is None:
        return Answer(raw=content.rstrip("\n"))
    _check_not_the_ledger(arguments.output, arguments.path)
    check_target("--output", arguments.output, arguments.force)
    write_text(arguments.output, content if content.endswith("\n") else content + "\n")
    lines = list(csv.reader(content.splitlines()))[1:] if arguments.format == "csv" else json.loads(content)["entries"]
    count = len(lines)  # of what was written, not of what others may have charged since
    data = {
        "command": "ledger export",
        "path": str(arguments.path),
        "output": arguments.output,
        "format": arguments.format,
        "written": count,
    }
    return Answer(data, f"{count} {'entry' if count == 1 else 'entries'} written to {plain(arguments.output)}")


def _opened(path, head):
    from skdptune.ledger import PrivacyLedger

    if head is not None and not _HASH.fullmatch(head):
        raise InvalidParameterError(
            f"--head must be a hash of 64 signs from 0 to 9 and a to f, as ledger show prints it; got {head[:80]!r}."
        )
    with as_options(path="the ledger's file"):
        ledger = PrivacyLedger.open(path)
    if head is not None:
        ledger.verify(head)
    return ledger


_HASH = re.compile("[0-9a-f]{64}")
_BESIDE = ("-wal", "-shm", "-journal")  # of SQLite: parts of the ledger


def _check_not_the_ledger(output, path):
    own = [path, *(os.path.realpath(path) + ending for ending in _BESIDE)]
    same = any(os.path.realpath(output) == os.path.realpath(each) for each in own)
    if same or (os.path.exists(output) and os.path.samefile(output, path)):
        raise InvalidParameterError("--output must not be the ledger itself, or a part of it: its history would go.")


def _unbroken(data):
    """Return what was checked, and no more: an entry that is missing at the end leaves no gap."""
    if data["kept_head"] is not None:
        return "unbroken, and it holds the head that was kept (entries taken off after that head are not seen)"
    return (
        "unbroken as far as the file itself shows (not seen: entries taken off its end, or an older or rewritten file "
        "in its place; --head with a head that was kept elsewhere finds them)"
    )


def _text(data, entries):
    endless, mixed = data["order"] == float("inf"), data["delta"] > 0
    sums = "(epsilon, delta) promises" if mixed else "pure epsilons"
    order = f"infinity ({sums} add up)" if endless else as_given(data["order"])
    facts = [
        ["ledger", plain(data["path"])],
        ["data set", plain(data["dataset"] or "-")],
        ["relation", data["relation"]],
        ["budget", f"epsilon {as_given(data['epsilon'])} at delta {as_given(data['delta'])}, Renyi order {order}"],
        ["spent", f"epsilon {up(data['spent'])} (rounded up)"],
        ["left", f"epsilon {down(data['remaining'])} (rounded down)"],
        *(["note", plain(remark)] for remark in data["remarks"]),
        ["history", f"{_unbroken(data)}; its head is {data['head']}"],
    ]
    lines = [wrapped(f"{name:<9} {text}", 10, "") for name, text in facts]
    if not entries:
        return "\n".join([*lines, "", "no entries"])
    rows = [
        [str(entry.seq), str(entry.when)[:19], entry.kind, plain(entry.what or ""), up(entry.rdp), up(entry.epsilon)]
        for entry in entries
    ]
    unit = "an epsilon" if endless else f"nats at Renyi order {order}"
    aside = " (perhaps at a smaller delta than the ledger's)" if endless and mixed else ""
    legend = (
        f"charged: what was added to the total, {unit}{aside}; epsilon: what the entry alone costs at delta = "
        f"{as_given(data['delta'])}. Both are rounded up."
    )
    head = ["", "when (UTC)", "kind", "what", "charged", "epsilon"]
    return "\n".join([*lines, "", table(head, rows, "><<<>>"), "", wrapped(legend, 2, "")])
