"""Run-spec files beside a DAG file. Parsing reads them and nothing else: no database, no connection, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from dpone_core.contracts.run_spec import MAX_RUN_SPEC_BYTES, RUN_SPEC_INVALID, RunSpec, parse_run_spec
from dpone_core.contracts.wire import ContractInvalidError
from dpone_core.errors import ErrorCode
from dpone_core.resources import DocumentTooLargeError, read_file_bounded

RUN_SPEC_SUFFIX: Final = ".run_spec.json"
RUN_SPEC_NOT_FOUND: Final = ErrorCode("DPONE_RUN_SPEC_NOT_FOUND")


def load_run_spec(path: str | Path) -> RunSpec:
    """The run-spec in a file; raises ContractInvalidError naming the file and the rule it breaks."""
    file = Path(path)
    try:
        return parse_run_spec(read_file_bounded(file, MAX_RUN_SPEC_BYTES))
    except ContractInvalidError as error:
        raise ContractInvalidError(f"{file}: {error.message}", code=RUN_SPEC_INVALID, path=error.path) from None
    except DocumentTooLargeError as error:
        raise ContractInvalidError(f"{file}: {error}", code=RUN_SPEC_INVALID) from None
    except OSError as error:
        raise ContractInvalidError(
            f"{file}: the run-spec cannot be read ({type(error).__name__})",
            code=RUN_SPEC_NOT_FOUND,
            fix="compile it with: dpone gitops airflow run-spec MANIFEST",
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
) -> tuple[dict[str, RunSpec], tuple[ContractInvalidError, ...]]:
    """Every `<dag_id>.run_spec.json` of a directory by dag id, in name order, and what is wrong with the others.

    With `names` only those and in their order; an absent one is among what is wrong. `wanted` is the one DAG that a
    task process needs, None for all of them: no other file is read.
    """
    folder = Path(directory)
    if wanted is not None:
        names = [wanted] if names is None or wanted in tuple(names) else []
    elif names is None:
        names = sorted(file.name.removesuffix(RUN_SPEC_SUFFIX) for file in folder.glob(f"*{RUN_SPEC_SUFFIX}"))
    specs: dict[str, RunSpec] = {}
    problems: list[ContractInvalidError] = []
    for name in names:
        try:
            specs[name] = load_run_spec(folder / f"{name}{RUN_SPEC_SUFFIX}")
        except ContractInvalidError as problem:
            problems.append(problem)
    return specs, tuple(problems)


def report_broken_run_specs(problems: Iterable[ContractInvalidError]) -> Any:
    """A DAG that only carries an import error; the other DAGs of the same file load. None without problems."""
    from airflow.providers.common.compat.sdk import DAG

    found = tuple(problems)
    if not found:
        return None

    def refuse() -> None:
        raise ContractInvalidError("; ".join(str(problem) for problem in found), code=RUN_SPEC_INVALID)

    dag = DAG("dpone_broken_run_specs", schedule=None)
    dag.validate = refuse
    return dag
