"""A step of a scheduler: the arguments that its commands share, and the receipt that every exit leaves.

The receipt goes to --receipt-path atomically, and into the pod's termination message.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from dpone_core.cli.parser import UsageError
from dpone_core.contracts.step_receipt import StepReceipt, termination_message
from dpone_core.errors import ETLConfigurationError
from dpone_core.evidence.redaction import Redactor
from dpone_core.invocation import RunArguments
from dpone_core.resources import probe_directory
from dpone_core.use_cases.step_receipt import (
    ReceiptNotWrittenError,
    StepExecution,
    StepExit,
    StepStatement,
    project_step,
)
from dpone_core.use_cases.verify import PackReference

TERMINATION_LOG: Final = "DPONE_TERMINATION_LOG"
_DEFAULT_TERMINATION_LOG: Final = "/dev/termination-log"


def given_run_id(arguments: argparse.Namespace) -> str | None:
    """The run id of the command line or of the scheduler, unchecked."""
    return arguments.run_id or os.environ.get("DPONE_DAG_RUN_ID", "").strip() or None


def read_run_arguments(arguments: argparse.Namespace) -> RunArguments:
    return RunArguments(
        run_id=arguments.run_id,
        dag_id=arguments.dag_id,
        execution_date=arguments.execution_date,
        interval_start=arguments.interval_start,
        interval_end=arguments.interval_end,
        repair_authority_ref=arguments.repair_authority_ref,
        transfer_plan=getattr(arguments, "transfer_plan", None),
    )


def read_pack_reference(arguments: argparse.Namespace) -> PackReference | None:
    """Raises UsageError for one option of the pair without the other."""
    if (arguments.pack is None) != (arguments.pack_fingerprint is None):
        raise UsageError("--pack and --pack-fingerprint belong together")
    if arguments.pack is None:
        return None
    return PackReference(path=Path(arguments.pack), fingerprint=arguments.pack_fingerprint)


class ReceiptPathError(ETLConfigurationError):
    """--receipt-path names what no receipt can be written to; nothing ran."""

    code = "DPONE_RECEIPT_PATH_INVALID"


def require_receipt_path(path: str) -> None:
    """Asks before anything runs whether the receipt can be written. Raises ReceiptPathError."""
    target = Path(path)
    fix = "name a file in a directory that this user may write"
    if not path or not _may_replace(target):
        raise ReceiptPathError("--receipt-path names no regular file", fix=fix)
    try:
        probe_directory(target.parent)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ReceiptPathError(f"the receipt cannot be written at --receipt-path: {reason}", fix=fix) from error


def write_receipt(path: str, execution: StepExecution | None, end: StepExit, redactor: Redactor) -> StepReceipt:
    """Writes a temporary file and renames it; the termination message in place. Raises ReceiptNotWrittenError."""
    statement = project_step(execution, end, redactor)
    target = Path(path)
    if not path or not _may_replace(target):
        raise ReceiptNotWrittenError("the step receipt could not be written: its path names no regular file")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(statement.receipt.encode())
        os.replace(temporary, target)
    except OSError as failure:
        with suppress(OSError):  # the directory itself may be what refuses
            temporary.unlink()
        raise ReceiptNotWrittenError("the step receipt could not be written") from failure
    _write_termination_message(statement, end.env)
    return statement.receipt


def _may_replace(target: Path) -> bool:
    """A pipe, a device or a directory is never replaced by a receipt."""
    return target.is_file() or not target.exists()


def _write_termination_message(statement: StepStatement, env: Mapping[str, str]) -> None:
    """In place: a rename over Kubernetes' bind mount fails. Absent outside a pod, and then nothing is written."""
    path = Path(env.get(TERMINATION_LOG) or _DEFAULT_TERMINATION_LOG)
    try:
        if path.is_file():
            path.write_bytes(termination_message(statement.line, statement.receipt))
    except OSError:
        return
