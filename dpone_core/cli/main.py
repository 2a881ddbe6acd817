"""The console entry point: parse, call the API, render. One object or one text on stdout; logs on stderr.

Every exit, a usage error included, leaves the step receipt that --receipt-path asks for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from dpone_core.cli.signals import SignalCancellation
from dpone_core.cli.streams import print_out
from dpone_core.version import __version__


def entry_point() -> None:
    """`dpone` on the command line. Signals are taken over before anything else is imported, and never given back: after
    the verdict none of them changes how the process ends."""
    cancellation = SignalCancellation()
    cancellation.settle()
    cancellation.install()
    _leave(main(sys.argv[1:], cancellation))


def _leave(status: int) -> NoReturn:
    """Ends the process with the status that its receipt tells, without the interpreter's own shutdown: there a thread
    of an engine that still wants the interpreter aborts the process. Everything was closed and written before."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, full, or never there
            stream.flush()
    os._exit(status)


def main(argv: Sequence[str], cancellation: SignalCancellation | None = None) -> int:
    """Exit status of one invocation; never raises for anything a user or an engine can cause.

    `cancellation` None = the caller handles the signals of this process.
    """
    if list(argv) in (["--version"], ["-V"]):
        return 0 if print_out(f"dpone {__version__}\n") else 1
    from dpone_core.cli.dispatch import dispatch

    return dispatch(argv, cancellation or SignalCancellation())
