"""The 28 ways in which a pod ends, and what Airflow must then say (AIR-07). Pure data; the manual shows this table.

`state` is that of the load's task after its last try, `code` what the outcome gate names as primary cause (None: the
gate passes), `receipt` the status of the receipt that reached XCom (None: no receipt). A scenario whose second try is
undisturbed shows that a retry repairs what may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`platform` are settings of the run-spec, `attributes` are set on the operator against what it would allow."""

    name: str
    what: str
    state: str
    code: str | None = None
    receipt: str | None = None
    tries: int = 1
    platform: Mapping[str, object] = field(default_factory=dict)
    attributes: Mapping[str, object] = field(default_factory=dict)

    @property
    def expected(self) -> tuple[str, str | None, str | None, int]:
        return (self.state, self.code, self.receipt, self.tries)


def shown(outcome: tuple[str, str | None, str | None, int]) -> str:
    """One outcome as the run's summary prints it."""
    state, code, receipt, tries = outcome
    return f"{state}, {code or 'gate passes'}, receipt {receipt or 'none'}, {tries} {'try' if tries == 1 else 'tries'}"


def _succeeds(name: str, what: str, tries: int = 1, **given: Mapping[str, object]) -> Scenario:
    return Scenario(name=name, what=what, state="success", receipt="succeeded", tries=tries, **given)  # type: ignore[arg-type]


def _fails(
    name: str, what: str, code: str, tries: int, receipt: str | None = None, **given: Mapping[str, object]
) -> Scenario:
    return Scenario(name=name, what=what, state="failed", code=code, receipt=receipt, tries=tries, **given)  # type: ignore[arg-type]


def _annotated(fault: str, value: str) -> dict[str, object]:
    return {"annotations": {f"local.dpone/{fault}": value}}


POD_EXIT: Final = "DPONE_POD_EXIT_NONZERO"
INVALID: Final = "DPONE_RECEIPT_INVALID"
REQUIRED: Final = "DPONE_RECEIPT_REQUIRED"
NOT_STARTED: Final = "DPONE_POD_NOT_STARTED"
SHORT: Final[dict[str, object]] = {"startup_timeout_seconds": 4}

SCENARIOS: Final = (
    _succeeds("ok", "exit 0, receipt"),
    _fails("exit_2_receipt", "exit 2, receipt and termination message", "DPONE_CONFIGURATION_INVALID", 1, "refused"),
    _fails("exit_2_no_receipt", "exit 2, no receipt", POD_EXIT, 1),
    _fails("exit_0_no_receipt", "exit 0, no receipt", REQUIRED, 2),
    _fails("exit_0_invalid_json", "exit 0, half a receipt", INVALID, 2),
    _fails("exit_2_invalid_json", "exit 2, half a receipt", POD_EXIT, 1),
    _fails("megabyte", "exit 0, a receipt with a megabyte beside it", INVALID, 2),
    _fails("sigkill", "killed while its receipt says nothing yet", POD_EXIT, 2),
    _fails("sigterm", "stopped by its node, the receipt says interrupted", "DPONE_INTERRUPTED", 1, "interrupted"),
    _succeeds("vanished", "deleted by somebody else in the first try", 2),
    _succeeds("evicted", "evicted in the first try", 2),
    _fails(
        "execution_timeout", "stopped by Airflow's timeout in its grace period", "DPONE_INTERRUPTED", 1, "interrupted"
    ),
    _succeeds("active_deadline", "ended by the cluster's deadline in the first try", 2),
    _fails(
        "image_pull",
        "the image cannot be pulled",
        NOT_STARTED,
        2,
        platform=_annotated("waiting", "ErrImagePull|no such image"),
    ),
    _fails("missing_secret", "a Secret does not exist", NOT_STARTED, 2, platform=SHORT),
    _fails(
        "unschedulable",
        "no node takes it",
        NOT_STARTED,
        2,
        platform={**SHORT, "schedule_timeout_seconds": 2, **_annotated("unschedulable", "true")},
    ),
    _fails(
        "skip_on_exit",
        "exit code 99, which the operator was told to skip on",
        POD_EXIT,
        1,
        "succeeded",
        attributes={"skip_on_exit_code": [99]},
    ),
    _succeeds("log_drop", "the log stream breaks off", platform=_annotated("log-drop-after", "2")),
    _succeeds("api_500", "the API answers 500 twice"),
    _succeeds("api_403", "the API refuses the first create with 403", 2),
    _succeeds(
        "exec_garbage",
        "the receipt is cut in XCom, whole in the termination message",
        platform=_annotated("exec", "garbage"),
    ),
    _fails(
        "no_xcom_push",
        "exit 2, XCom switched off, receipt in the termination message",
        "DPONE_CONFIGURATION_INVALID",
        1,
        "refused",
        attributes={"do_xcom_push": False},
    ),
    _succeeds("pending", "pending for two seconds", platform=_annotated("pending-seconds", "2")),
    _fails("list", "exit 0, a list instead of a receipt", INVALID, 2),
    _fails("nan", "exit 0, a number that is none in the receipt", INVALID, 2),
    _fails(
        "no_container_statuses",
        "the API never serves containerStatuses",
        REQUIRED,
        2,
        platform=_annotated("strip-status", "containerStatuses"),
    ),
    _succeeds("no_conditions", "the API never serves conditions", platform=_annotated("strip-status", "conditions")),
    _succeeds("no_phase", "the API never serves a phase", platform=_annotated("strip-status", "phase")),
)


def manual_table() -> list[str]:
    """The table of the manual."""
    rows = ["| the pod | task | gate | receipt in XCom | tries |", "| --- | --- | --- | --- | --- |"]
    for one in SCENARIOS:
        gate = f"`{one.code}`" if one.code else "passes"
        rows.append(f"| {one.what} | {one.state} | {gate} | {one.receipt or 'none'} | {one.tries} |")
    return rows
