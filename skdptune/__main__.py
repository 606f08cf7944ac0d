"""``python -m skdptune``: see :mod:`skdptune._cli`."""

import sys

__all__ = ["main"]


def main(argv=None):
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; None takes those of this process.

    Returns
    -------
    int
        0 for an answer; what other numbers mean is listed by ``skdptune --help``.

    Examples
    --------
    >>> main(["price", "pure", "--epsilon", "1", "--run-count", "fixed", "--k", "0", "--delta", "0"])
    2
    """
    try:
        from skdptune._cli._main import run  # inside: Ctrl-C during the imports is quiet, too

        return run(argv)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
