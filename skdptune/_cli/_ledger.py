"""``ledger show`` and ``ledger export``: reading a privacy ledger; nothing here charges or changes one."""

import contextlib
import os

from skdptune._cli._codes import Answer
from skdptune._cli._tables import down, table, up, wrapped
from skdptune._exceptions import InvalidParameterError

__all__ = ["export", "show"]


def show(arguments):
    """Return the Answer to ``ledger show``."""
    ledger, head = _checked(arguments.path)
    entries = ledger.entries()
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
        "spent": ledger.spent,
        "remaining": ledger.remaining,
        "head": head,
        "entries": [entry.to_dict() for entry in entries],
    }
    return Answer(data, _text(data, entries))


def export(arguments):
    """Return the Answer to ``ledger export``."""
    ledger, _ = _checked(arguments.path)
    if arguments.json and arguments.format == "csv":
        raise InvalidParameterError("--json and --format csv contradict each other; leave one of them out.")
    content = ledger.to_csv() if arguments.format == "csv" else ledger.to_json()
    if arguments.output is None:
        return Answer(raw=content.rstrip("\n"))
    if os.path.exists(arguments.output) and os.path.samefile(arguments.output, arguments.path):
        raise InvalidParameterError("--output must not be the ledger itself: its history would be lost.")
    _write(arguments.output, content, arguments.force)
    count = len(ledger.entries())
    return Answer(raw=f"{count} {'entry' if count == 1 else 'entries'} written to {arguments.output}")


def _checked(path):
    """Open what exists and check its history: a ledger that was edited is not read out as if it were true."""
    from skdptune.ledger import PrivacyLedger

    ledger = PrivacyLedger.open(path)
    return ledger, ledger.verify()


def _write(path, content, force):
    """Write a whole file or none."""
    if os.path.lexists(path) and not force:
        raise InvalidParameterError(f"--output must be a new file; {path} exists. Take another name, or --force.")
    beside = f"{path}.{os.getpid()}.part"
    try:
        with open(beside, "x", encoding="utf-8", newline="") as file:
            file.write(content if content.endswith("\n") else content + "\n")
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _text(data, entries):
    order = "infinity (pure epsilons add up)" if data["order"] == float("inf") else f"{data['order']:g}"
    facts = [
        ["ledger", data["path"]],
        ["data set", data["dataset"] or "-"],
        ["relation", data["relation"]],
        ["budget", f"epsilon {data['epsilon']:g} at delta {data['delta']:g}, Renyi order {order}"],
        ["spent", f"epsilon {up(data['spent'])} (rounded up)"],
        ["left", f"epsilon {down(data['remaining'])} (rounded down)"],
        ["history", f"unbroken; its head is {data['head']}"],
    ]
    lines = [wrapped(f"{name:<9} {text}", 10, "") for name, text in facts]
    if not entries:
        return "\n".join([*lines, "", "no entries"])
    rows = [[str(entry.seq), str(entry.when)[:19], entry.kind, entry.what or "", _amount(entry)] for entry in entries]
    return "\n".join([*lines, "", table(["", "when (UTC)", "kind", "what", "epsilon"], rows, "><<<>")])


def _amount(entry):
    return "-" if entry.epsilon is None else up(entry.epsilon)
