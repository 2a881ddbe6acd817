"""Reads the data contract that a manifest names and puts its gates behind those of the manifest.

The file follows the Open Data Contract Standard 3 and is read by the standard's own package. It lies in the project as
a SQL file does, and belongs to the pack. After this step the manifest names no contract any more, so that whatever
judges it sees gates alone. Contract: GATE-36, GATE-37, GATE-38, GATE-39.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Final

from dpone_core.authoring.quality import QualitySection
from dpone_core.authoring.rules import process_findings
from dpone_core.authoring.validate import Finding, Path, findings_of
from dpone_core.declared.registry import descriptor_of
from dpone_core.manifest.contract_rules import ContractRules, Quoting, rules_of
from dpone_core.manifest.document import Document, read_document
from dpone_core.manifest.processes import AuthoredManifest, AuthoredProcess, problem_at
from dpone_core.manifest.project_files import Dependency, DependencyKind, ProjectFileError, read_project_file
from dpone_core.model.connector import ConnectorType
from dpone_core.model.problem import ManifestInvalidError, Position, Problem

if TYPE_CHECKING:
    from open_data_contract_standard.model import OpenDataContractStandard

CONTRACT_INVALID: Final = "DPONE_DATA_CONTRACT_INVALID"
EXTRA_MISSING: Final = "DPONE_EXTRA_MISSING"
CONTRACT_PATH: Final[Path] = ("quality", "contract")
_VERSIONS: Final = "v3."
_INSTALL: Final = "install it from a checkout or wheel: pip install '.[contract]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataContract:
    """A contract that follows the standard, and its document, which gives positions."""

    model: OpenDataContractStandard
    document: Document

    def rules_for(self, table: str, sink: ConnectorType) -> ContractRules:
        """The gates and findings of the object that describes the table."""
        sql = descriptor_of(sink).sql
        return rules_of(self.model, table, Quoting(None if sql is None else sql.dialect))

    def problems_of(self, rules: ContractRules) -> Iterator[Problem]:
        for found in rules.findings:
            yield problem_at(self.document, found, found.path)


def parse_contract(content: bytes, *, file: str) -> DataContract:
    """Reads one contract. Raises ManifestInvalidError with every problem and its place in the file."""
    document = read_document(content, file=file)
    findings = list(_version_findings(document.value))
    if not findings:
        found = _model_of(document.value)
        if not isinstance(found, list):
            return DataContract(model=found, document=document)
        findings = found
    raise ManifestInvalidError([problem_at(document, finding, finding.path) for finding in findings])


def _version_findings(value: Mapping[str, object]) -> Iterator[Finding]:
    if value.get("kind") != "DataContract":
        yield Finding(
            code=CONTRACT_INVALID, message="a data contract says kind: DataContract", path=("kind",), fix="say its kind"
        )
    if not str(value.get("apiVersion")).startswith(_VERSIONS):
        yield Finding(
            code=CONTRACT_INVALID,
            message="only contracts of the Open Data Contract Standard 3 are read",
            path=("apiVersion",),
            fix="write the contract in apiVersion v3.1.0 or another v3",
        )
    if importlib.util.find_spec("open_data_contract_standard") is None:
        yield Finding(code=EXTRA_MISSING, message="a data contract needs open-data-contract-standard", fix=_INSTALL)


def _model_of(value: Mapping[str, object]) -> OpenDataContractStandard | list[Finding]:
    from open_data_contract_standard.model import OpenDataContractStandard
    from pydantic import ValidationError

    try:
        return OpenDataContractStandard.model_validate(value)
    except ValidationError as error:
        return [
            Finding(
                code=CONTRACT_INVALID,
                message=f"the contract does not follow the standard: {detail['type']}",
                path=tuple(part for part in detail["loc"] if part in _authored(value)),
                fix="see the Open Data Contract Standard 3",
            )
            for detail in error.errors(include_url=False, include_input=False)
        ]


def _authored(value: object) -> set[str | int]:
    """Every key and index of the document: what else stands in an error's place is of pydantic."""
    if isinstance(value, Mapping):
        return {*map(str, value), *(part for item in value.values() for part in _authored(item))}
    if isinstance(value, list):
        return {*range(len(value)), *(part for item in value for part in _authored(item))}
    return set()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractFiles:
    """Reads each contract once, and keeps its hash for the pack."""

    root: FilePath
    directory: FilePath
    dependencies: dict[str, Dependency] = field(default_factory=dict)
    contracts: dict[str, DataContract] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def applied(self, authored: AuthoredManifest) -> AuthoredManifest:
        """The manifest with the gates of its contracts. Raises ManifestInvalidError with every problem."""
        processes = tuple(self._with_gates(process) for process in authored.processes)
        if self.problems:
            raise ManifestInvalidError(self.problems)
        return replace(authored, processes=processes)

    def _with_gates(self, process: AuthoredProcess) -> AuthoredProcess:
        name = process.section.quality.contract
        if name is None:
            return process
        contract = self._read(process, name)
        if contract is None:
            return process
        sink = process.section.sink
        rules = contract.rules_for(sink.table.name, ConnectorType(sink.type))
        self.problems.extend(contract.problems_of(rules))
        return self._joined(process, contract, rules)

    def _read(self, process: AuthoredProcess, name: str) -> DataContract | None:
        try:
            content, dependency = read_project_file(self.root, self.directory, name, DependencyKind.DATA_CONTRACT)
            self.dependencies[dependency.path] = dependency
            if name not in self.contracts:
                self.contracts[name] = parse_contract(content, file=name)
            return self.contracts[name]
        except ProjectFileError as error:
            finding = Finding(code=error.code, message=error.message, path=CONTRACT_PATH, fix=error.fix)
            self.problems.append(process.problem(finding))
        except ManifestInvalidError as error:
            self.problems.extend(error.problems)
        return None

    def _joined(self, process: AuthoredProcess, contract: DataContract, rules: ContractRules) -> AuthoredProcess:
        value = process.merged.value
        given = value.get("quality")
        quality = {name: item for name, item in given.items() if name != "contract"} if isinstance(given, dict) else {}
        own = quality.get("gates")
        own = own if isinstance(own, list) else []
        quality["gates"] = [*own, *(made.gate for made in rules.gates)]
        places: dict[Path, Position] = {
            ("quality", "gates", len(own) + number): contract.document.position_of(made.path)
            for number, made in enumerate(rules.gates)
        }
        section = findings_of(QualitySection, quality)
        if isinstance(section, tuple):
            self.problems.extend(_joining_problems(process, section, places))
            return process
        joined = replace(
            process,
            section=process.section.model_copy(update={"quality": section}),
            merged=replace(process.merged, value={**value, "quality": quality}),
            places=places,
            not_judged=tuple(rules.not_judged),
        )
        self.problems.extend(joined.problem(found) for found in process_findings(joined.section))
        return joined


def _joining_problems(
    process: AuthoredProcess, findings: tuple[Finding, ...], places: Mapping[Path, Position]
) -> Iterator[Problem]:
    """What only shows when the gates stand together, such as one id twice; placed in the contract where it is of it."""
    placed = replace(process, places=places)
    for found in findings:
        yield placed.problem(replace(found, path=("quality", *found.path)))
