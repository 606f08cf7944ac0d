"""What may be asked: the parser, its help and the examples in it. Loads nothing but argparse."""

import argparse
import textwrap

from skdptune._cli._codes import CODES, USAGE, say
from skdptune._cli._mechanisms import MECHANISMS, RELATIONS, number, seed, whole
from skdptune._cli._run_counts import DEFAULT, RUN_COUNTS, add_run_count

__all__ = ["build_parser"]

_WIDTH = 79
_SEARCH_EXAMPLE = "--run-count logarithmic --mean 10 --delta 1e-5"


class _Parser(argparse.ArgumentParser):
    """A parser that complains in one line, as everything here does."""

    def __init__(self, **settings):
        settings["description"] = textwrap.fill(settings["description"], _WIDTH)
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def error(self, message):
        say(f"error: {message}; see {self.prog} --help")
        raise SystemExit(USAGE)


def build_parser():
    """Return the parser of the whole command line."""
    parser = _Parser(
        prog="skdptune",
        description="Price, plan and calibrate private hyperparameter searches.",
        epilog=_epilog(
            [
                f"price gaussian --noise-multiplier 3 {_SEARCH_EXAMPLE}",
                "calibrate gaussian --target 2 --mean 10 --delta 1e-5",
                "demo --candidate centroids",
            ],
            "exit codes:\n" + "\n".join(f"  {code:<4} {meaning}" for code, meaning in CODES),
        ),
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command_name")
    _add_price(commands)
    _add_plan(commands)
    _add_calibrate(commands)
    _add_ledger(commands)
    _add_demo(commands)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        from skdptune import __version__

        print(f"skdptune {__version__}")
        parser.exit()


def _epilog(examples, *more):
    shown = "\n".join(_broken(f"skdptune {line}") for line in examples)
    return "\n\n".join([f"examples:\n{shown}", *more])


def _broken(line):
    """Break a command between its options; a shell takes the lines as they are."""
    words = line.replace(" ", "\0").replace("\0-", " -")
    first, *rest = textwrap.wrap(words, _WIDTH - 8, break_long_words=False, break_on_hyphens=False)
    return " \\\n".join(["  " + first, *("      " + more for more in rest)]).replace("\0", " ")


def _joined(*parts):
    return " ".join(part for part in parts if part)


def _command(commands, name, summary, examples, description=None):
    return commands.add_parser(
        name, help=summary, description=description or f"{summary[0].upper()}{summary[1:]}.", epilog=_epilog(examples)
    )


def _json(parser, text="print JSON instead of text; infinity is the text \"inf\""):
    parser.add_argument("--json", action="store_true", help=text)


# -- one subcommand per mechanism ------------------------------------------------------------


def _mechanism_parsers(commands, name, summary, run, optional_free, examples, description):
    parent = _command(commands, name, summary, [f"{name} {examples(MECHANISMS[3])}"], description)
    kinds = parent.add_subparsers(metavar="MECHANISM", required=True, dest="mechanism_name")
    for mechanism in MECHANISMS:
        parser = kinds.add_parser(
            mechanism.name,
            help=mechanism.help,
            description=f"{description} One run is {mechanism.help}.",
            epilog=_epilog([f"{name} {examples(mechanism)}"]),
        )
        group = parser.add_argument_group("one run")
        for position, each in enumerate(mechanism.arguments):
            needed = position > 0 or not optional_free
            text = each.help
            if position == 0 and optional_free is None:
                continue
            group.add_argument(each.flag, type=each.kind, required=needed, dest=each.dest, metavar="X", help=text)
        if optional_free is None:
            parser.set_defaults(**{mechanism.free.dest: None})
        text = f"which data sets are neighbours: {', '.join(RELATIONS)} (default: zero-out)"
        group.add_argument("--relation", choices=RELATIONS, default="zero-out", metavar="NAME", help=text)
        parser.add_argument(
            "--delta", type=number, required=True, metavar="D", help="delta at which the whole search is priced"
        )
        _json(parser)
        parser.set_defaults(command=run, mechanism=mechanism)
        yield parser


def _refit(parser):
    parser.add_argument(
        "--refit", action="store_true", help="add one more training of the winner on all rows (refit=True)"
    )


def _add_price(commands):
    def run(arguments):
        from skdptune._cli._price import price

        return price(arguments)

    def examples(mechanism):
        return _joined(mechanism.name, mechanism.example, mechanism.fixed_example, _SEARCH_EXAMPLE)

    description = "What one run and the whole search cost, by every bound that is known."
    for parser in _mechanism_parsers(commands, "price", "price a search", run, False, examples, description):
        add_run_count(parser)
        _refit(parser)
        parser.add_argument(
            "--limit", type=number, metavar="EPSILON", help="exit with code 3 if the whole search costs more than this"
        )


def _add_calibrate(commands):
    def run(arguments):
        from skdptune._cli._calibrate import calibrate

        return calibrate(arguments)

    def examples(mechanism):
        return _joined(mechanism.name, mechanism.fixed_example, "--target 2 --mean 10 --delta 1e-5")

    summary = "find the least noise whose whole search meets a target"
    description = "The least noise with which the whole search meets a target."
    for parser in _mechanism_parsers(commands, "calibrate", summary, run, None, examples, description):
        parser.add_argument(
            "--target", type=number, required=True, metavar="EPSILON", help="epsilon of the whole search, nats"
        )
        add_run_count(parser)
        _refit(parser)


def _add_plan(commands):
    def run(arguments):
        from skdptune._cli._plan import plan

        return plan(arguments)

    def examples(mechanism):
        wishes = "--delta 1e-5 --run-counts geometric poisson --expected-quantile 0.8"
        return _joined(mechanism.name, mechanism.example, mechanism.fixed_example, wishes)

    summary = "compare distributions of the number of tries"
    description = (
        "What each distribution of the number of tries buys. With the noise given, rows show what the search costs; "
        "with --target beside it, each takes the largest mean that fits, unless --means or --expected-quantile say "
        "which. Without the noise, every row is calibrated to --target."
    )
    for parser in _mechanism_parsers(commands, "plan", summary, run, True, examples, description):
        group = parser.add_argument_group("the plan")
        group.add_argument("--target", type=number, metavar="EPSILON", help="epsilon of the whole search, nats")
        group.add_argument(
            "--run-counts", nargs="+", choices=tuple(RUN_COUNTS), metavar="NAME",
            help=f"distributions to compare, of {DEFAULT}, logarithmic, geometric, poisson, zero-truncated-poisson "
            "(default: the usual ones)",
        )  # fmt: skip
        group.add_argument("--means", nargs="+", type=number, metavar="M", help="means to show, instead of chosen ones")
        group.add_argument(
            "--expected-quantile", type=number, metavar="Q",
            help="quantile that the best try must reach, by its own score among all tries (default: 0.9)",
        )
        group.add_argument(
            "--success-share", type=number, default=0.05, metavar="S", help="share of good settings (default: 0.05)"
        )
        group.add_argument("--max-mean", type=number, metavar="M", help="largest mean number of tries")
        text = "largest 99 %% quantile of the number of tries"
        group.add_argument("--max-runs-99", type=whole, metavar="N", help=text)
        group.add_argument(
            "--optimise", action="store_true", help="add the best distribution of all (takes up to a minute)"
        )


# -- ledger and demo -------------------------------------------------------------------------


def _add_ledger(commands):
    parent = _command(
        commands,
        "ledger",
        "read a privacy ledger",
        ["ledger show budget.db", "ledger export budget.db --format csv"],
        "Read a privacy ledger; nothing is charged or changed.",
    )
    kinds = parent.add_subparsers(metavar="ACTION", required=True, dest="action_name")
    show = kinds.add_parser(
        "show",
        help="budget, what is spent and what is left",
        description="Check a ledger and show its budget, its entries and what is left.",
        epilog=_epilog(["ledger show budget.db", "ledger show budget.db --json"]),
    )
    _json(show)

    def run_show(arguments):
        from skdptune._cli._ledger import show

        return show(arguments)

    show.set_defaults(command=run_show)
    export = kinds.add_parser(
        "export",
        help="all entries, as JSON or CSV",
        description="Check a ledger and write all of its entries.",
        epilog=_epilog(["ledger export budget.db", "ledger export budget.db --format csv --output entries.csv"]),
    )
    export.add_argument("--format", choices=("json", "csv"), default="json", help="default: json")
    export.add_argument("--output", metavar="FILE", help="a new file; default: standard output")
    export.add_argument("--force", action="store_true", help="overwrite FILE")
    _json(export, "print JSON: with --output a note of what was written")

    def run_export(arguments):
        from skdptune._cli._ledger import export

        return export(arguments)

    export.set_defaults(command=run_export)
    for parser in (show, export):
        parser.add_argument("path", metavar="LEDGER", help="the ledger's file")
        text = "a head that was kept elsewhere: code 4 unless the history still holds it"
        parser.add_argument("--head", metavar="HASH", help=text)


def _add_demo(commands):
    parser = _command(
        commands,
        "demo",
        "run a complete private search on bundled data",
        ["demo", "demo --candidate centroids --mean 5 --json"],
        "A complete private search on the breast masses that scikit-learn ships: price, fit, report.",
    )
    parser.add_argument(
        "--candidate",
        choices=("auto", "linear", "centroids"),
        default="auto",
        help="diffprivlib's linear model, class centroids with noise, or (auto) the first if diffprivlib works here",
    )
    parser.add_argument("--mean", type=number, default=10.0, metavar="M", help="mean number of tries (default: 10)")
    parser.add_argument(
        "--seed", type=seed, help="repeat the same search; voids the guarantee for all who know the seed"
    )
    text = "also write the privacy report, a new file: .html, .json or .md"
    parser.add_argument("--report", metavar="FILE", help=text)
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    _json(parser)

    def run(arguments):
        from skdptune._cli._demo import demo

        return demo(arguments)

    parser.set_defaults(command=run)
