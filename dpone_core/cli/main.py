"""The console entry point: parse, call the API, render. One object or one text on stdout; logs on stderr.

Every exit, a usage error included, leaves the step receipt that --receipt-path asks for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from dpone_core.version import __version__

INTERRUPTED: Final = 130


def entry_point() -> None:
    """`dpone` on the command line."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Exit status of one invocation; never raises for anything a user or an engine can cause."""
    if list(argv) in (["--version"], ["-V"]):
        print(f"dpone {__version__}")
        return 0
    from dpone_core.cli.dispatch import dispatch

    try:
        return dispatch(argv)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
