"""`contract show` and `contract export`: the data contract of a manifest, without any connection."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from dpone_core.errors import ETLConfigurationError
from dpone_core.manifest.contract_export import ExportedContract, export_contract
from dpone_core.manifest.processes import AuthoredProcess
from dpone_core.manifest.resolve import load_manifest
from dpone_core.model.problem import Position
from dpone_core.quality.policy import quality_section


class ContractNotNamedError(ETLConfigurationError):
    """No process of the manifest names a data contract."""

    code = "DPONE_DATA_CONTRACT_NOT_NAMED"


class ContractExtraMissingError(ETLConfigurationError):
    """The package of the standard is not installed."""

    code = "DPONE_EXTRA_MISSING"


class ProcessUnclearError(ETLConfigurationError):
    """A contract is of one process, and the manifest has several."""

    code = "DPONE_SELECTOR_UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractGates:
    """The gates that the contract of one process makes: each as a manifest would write it, and its place."""

    process: str
    gates: tuple[tuple[dict[str, object], Position], ...]
    not_judged: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "process": self.process,
            "gates": [
                {"gate": gate, "file": place.file, "line": place.line, "column": place.column}
                for gate, place in self.gates
            ],
            "not_judged": list(self.not_judged),
        }


def show_contract(path: Path, root: Path | None, selector: str | None) -> tuple[ContractGates, ...]:
    """The gates of every process that names a contract. Raises ManifestInvalidError, ContractNotNamedError."""
    manifest = load_manifest(path, project_root=root)
    chosen = {config.process for config in manifest.select(selector)}
    shown = tuple(
        _gates_of(process)
        for process in manifest.authored
        if process.name in chosen and (process.places or process.not_judged)
    )
    if not shown:
        raise ContractNotNamedError(
            "no process names a data contract", fix="add quality.contract: FILE to the manifest"
        )
    return shown


def _gates_of(process: AuthoredProcess) -> ContractGates:
    made = []
    for path, place in process.places.items():
        gate = process.section.quality.gates[int(path[-1])]
        made.append((gate.model_dump(mode="json", by_alias=True, exclude_unset=True), place))
    return ContractGates(process=process.name, gates=tuple(made), not_judged=process.not_judged)


def contract_of(path: Path, root: Path | None, selector: str | None) -> ExportedContract:
    """The data contract that a process declares. Raises ManifestInvalidError, ProcessUnclearError."""
    if importlib.util.find_spec("open_data_contract_standard") is None:
        raise ContractExtraMissingError(
            "a data contract needs open-data-contract-standard",
            fix="install it from a checkout or wheel: pip install '.[contract]'",
        )
    manifest = load_manifest(path, project_root=root)
    configs = manifest.select(selector)
    if len(configs) != 1:
        names = ", ".join(config.process for config in configs)
        raise ProcessUnclearError("a contract is of one process", fix=f"give --selector, one of {names}")
    (config,) = configs
    gates = quality_section(config.quality).gates
    return export_contract(config.process, config.sink.table, config.source.reading.columns, gates)
