"""Run-spec files beside a DAG file. Parsing reads them and nothing else: no database, no connection, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dpone_core.contracts.run_spec import MAX_RUN_SPEC_BYTES, RUN_SPEC_INVALID, RunSpec, parse_run_spec
from dpone_core.contracts.wire import ContractInvalidError
from dpone_core.errors import DponeError, ErrorCode
from dpone_core.resources import DocumentTooLargeError, read_file_bounded

RUN_SPEC_SUFFIX: Final = ".run_spec.json"
_COMPILE_AGAIN: Final = "compile it with: dpone gitops airflow run-spec MANIFEST"
RUN_SPEC_NOT_FOUND: Final = ErrorCode("DPONE_RUN_SPEC_NOT_FOUND")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRunSpec:
    """A run-spec that cannot be used: the name of its file without suffix, and one line with code, place and fix."""

    name: str
    problem: str


def load_run_spec(path: str | Path) -> RunSpec:
    """The run-spec in a file; raises ContractInvalidError naming the file and the rule it breaks."""
    file = Path(path)
    try:
        return parse_run_spec(read_file_bounded(file, MAX_RUN_SPEC_BYTES))
    except ContractInvalidError as error:
        raise ContractInvalidError(
            f"{file}: {error.message}", code=RUN_SPEC_INVALID, path=error.path, fix=error.fix or _COMPILE_AGAIN
        ) from None
    except DocumentTooLargeError as error:
        raise ContractInvalidError(f"{file}: {error}", code=RUN_SPEC_INVALID, fix=_COMPILE_AGAIN) from None
    except OSError as error:
        raise ContractInvalidError(
            f"{file}: the run-spec cannot be read ({type(error).__name__})",
            code=RUN_SPEC_NOT_FOUND,
            fix=_COMPILE_AGAIN,
        ) from None


def load_mapped_run_spec(path: str | Path) -> RunSpec:
    """The run-spec of a process whose partitions are tasks of their own; raises ContractInvalidError for any other."""
    spec = load_run_spec(path)
    if spec.mapped is None:
        raise ContractInvalidError(
            f"{path}: no step of the run-spec is mapped",
            code=RUN_SPEC_INVALID,
            path="steps",
            fix="set partitioning.airflow: mapped and compile it again, or use dag_factories/one_run_spec.py",
        )
    return spec


def load_run_specs(
    directory: str | Path, names: Iterable[str] | None = None, *, wanted: str | None = None
) -> dict[str, RunSpec | BrokenRunSpec]:
    """Every `<dag_id>.run_spec.json` of a directory by dag id, in name order; in the place of one that cannot be used
    what is wrong with it. `wire_dpone_gitops_task_group` makes of that a task that fails.

    With `names` only those and in their order; an absent one is broken, not left out. `wanted` is the one DAG that a
    task process needs, None for all of them: no other file is read.
    """
    folder = Path(directory)
    if wanted is not None:
        names = [wanted] if names is None or wanted in tuple(names) else []
    elif names is None:
        names = sorted(file.name.removesuffix(RUN_SPEC_SUFFIX) for file in folder.glob(f"*{RUN_SPEC_SUFFIX}"))
    return {name: run_spec_or_problem(folder / f"{name}{RUN_SPEC_SUFFIX}") for name in names}


def run_spec_or_problem(path: Path) -> RunSpec | BrokenRunSpec:
    """The run-spec in a file, or what is wrong with it."""
    try:
        return load_run_spec(path)
    except ContractInvalidError as error:
        return BrokenRunSpec(name=path.name.removesuffix(RUN_SPEC_SUFFIX), problem=one_line(error))


def one_line(error: DponeError) -> str:
    """Code, place and fix of an error, in one line."""
    place = f" at {error.path}" if isinstance(error, ContractInvalidError) and error.path else ""
    return f"{error.code}: {error.message}{place}{f'; {error.fix}' if error.fix else ''}"
