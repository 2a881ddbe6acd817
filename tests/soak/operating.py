"""What an operator does after a run, by nothing but what it says; docs/how-to/recovery.md is the book.

Each decision names the run id to run next. Commands run in between are the documented ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.soak.model import REFRESH, Row, expected
from tests.soak.processes import FAKETIME, Ended, Place
from tests.soak.sinks import Seen

BUSY: Final = ("load_in_progress", "embedded_directory_locked", "control_table_busy")
LEASE_SECONDS: Final = 310
_A_DAY: Final = 86_400
_PENDING: Final = ("load_already_committed", "earlier_load_unknown")
_GUARDED: Final = "native_transfer_manual_reconciliation_required"
_INCOMPLETE: Final = "native_transfer_run_incomplete"
_ANEW: Final = ("native_transfer_target_replaced", "native_transfer_cursor_moved")


class LostOperatorError(Exception):
    """What the report says leads nowhere, or a documented command does not do what its page says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`run_id` None = a new one; `what` is for the table."""

    run_id: str | None
    what: str


def decide(
    place: Place, run: Ended, seen: Seen, *, strategy: str, source: Sequence[Row], tries: int | None
) -> Decision:
    """After a run that did not succeed. `tries` counts those before; None: no lease outlives its
    process here."""
    if run.receipt is None:
        return Decision(run_id=None, what="new run id")
    if run.code in BUSY:
        if tries is not None:
            _wait_for_lease(place, tries)
        return Decision(run_id=run.run_id, what="waited")
    if run.code in _ANEW:
        return Decision(run_id=None, what="new run id")
    if run.code in _PENDING:
        return Decision(run_id=run.run_id, what=_settle_append(place, run, seen, source))
    if run.code == _GUARDED:
        return Decision(run_id=run.run_id, what=_reconcile(place, seen, strategy, source))
    if run.code == _INCOMPLETE:
        return Decision(run_id=_incomplete_run(place), what="resumed")
    return Decision(run_id=run.run_id, what="run again")


def _wait_for_lease(place: Place, tries: int) -> None:
    """Lets five minutes pass by the clock, or a day where a run had a clock that was a day ahead."""
    if FAKETIME is not None:
        place.clock_offset += LEASE_SECONDS if tries < 3 else _A_DAY


def _settle_append(place: Place, run: Ended, seen: Seen, source: Sequence[Row]) -> str:
    """Looks whether the target holds the rows of the pending load, and sets the cursor accordingly."""
    state = _asked(place, "state", "show", "m.yaml")
    pending, saved = state["pending_cursor_value"], state["cursor_value"]
    if pending is None:
        raise LostOperatorError(f"{run.code}, and dpone state show knows no pending load")
    held = Counter(seen.rows)
    if held == Counter(row for row in source if row[3] < int(pending)):
        value, what = str(pending), "cursor set: rows are there"
    elif held == Counter(row for row in source if row[3] < int(saved or 0)):
        if run.code == "load_already_committed":
            raise LostOperatorError("load_already_committed, and the rows are not in the target")
        value, what = str(saved or 0), "cursor set: rows are not there"
    else:
        raise LostOperatorError(f"{run.code}, and the target holds neither all nor none of the pending load")
    _asked(place, "state", "set", "m.yaml", "--value", value, "--reason", "compared with the source")
    return what


def _reconcile(place: Place, seen: Seen, strategy: str, source: Sequence[Row]) -> str:
    """Declares what the load marker says; where it cannot say, what the rows of the target show."""
    shown = _asked(place, "transfer", "show", "m.yaml")
    for run in shown["runs"]:
        says = {batch["load_marker_says"] for batch in run["unresolved"]}
        if not says:
            continue
        is_there = _holds_batch(seen, strategy, source)
        found = says.pop() if len(says) == 1 and "cannot_say" not in says else None
        if is_there is not None and found not in (None, "published" if is_there else "not_published"):
            raise LostOperatorError(f"the load marker says {found}, and the rows of the target say otherwise")
        if found is None and is_there is None:
            raise LostOperatorError("neither the load marker nor the target tells what became of a batch")
        found = found or ("published" if is_there else "not_published")
        arguments = ("--run-id", run["run_id"], "--found", found, "--reason", "compared with the source")
        _asked(place, "transfer", "reconcile", "m.yaml", *arguments)
        return f"reconciled: {found}"
    raise LostOperatorError(f"{_GUARDED}, and dpone transfer show knows no unresolved batch")


def _holds_batch(seen: Seen, strategy: str, source: Sequence[Row]) -> bool | None:
    """Whether the rows show that the unresolved batch is there; None: they do not show it.

    A refresh is one batch. Any other one is there when everything is.
    """
    if seen.rows == expected(strategy, seen.rows, source):
        return True
    return False if strategy == REFRESH else None


def _incomplete_run(place: Place) -> str:
    """The open run that has published a part."""
    for run in _asked(place, "transfer", "show", "m.yaml")["runs"]:
        if run["checkpoint_summary"]["committed"]:
            return str(run["run_id"])
    raise LostOperatorError(f"{_INCOMPLETE}, and dpone transfer show knows no such run")


def clean_up(place: Place, run_ids: Sequence[str], look: Callable[[], Seen]) -> Seen:
    """`dpone cleanup` for each run that died, newest first, until nothing is left; what is there then."""
    seen = look()
    for run_id in reversed(list(dict.fromkeys(run_ids))):
        if not seen.leftovers:
            break
        place.operate("cleanup", "m.yaml", "--run-id", run_id)
        seen = look()
    return seen


def _asked(place: Place, *arguments: str) -> dict[str, Any]:
    exit_code, document = place.operate(*arguments)
    if exit_code != 0 or not document:
        raise LostOperatorError(f"dpone {' '.join(arguments)} exits with {exit_code}: {document.get('code')}")
    return document
