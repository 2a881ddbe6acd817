"""Reads the platform file and resolves its settings for one process.

`defaults` and the entry under `processes` merge key by key, lists and single values replace; every problem is reported
at the line that authored it.
Contract: DAG-21, DAG-22.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel

from dpone_core.authoring.platform import PlatformSection, SecretKeySection, StepsSection
from dpone_core.authoring.validate import CONFLICT, UNKNOWN_FIELD, Finding, Path, closest, findings_of, null_findings
from dpone_core.contracts.platform import PlatformSettings
from dpone_core.manifest.document import Document, read_document
from dpone_core.manifest.merge import Layer, merge
from dpone_core.manifest.processes import problem_at, sort_problems
from dpone_core.model.problem import ManifestInvalidError
from dpone_core.model.vocabulary import StepKind

_Model = TypeVar("_Model", bound=BaseModel)
_OPTIONAL_STEPS = {
    StepKind.HOOK: "hook with a task",
    StepKind.TRANSFER_PLAN: "key ranges with tasks",
    StepKind.TRANSFER_PARTITION: "key ranges with tasks",
}
_OF_A_PROCESS = frozenset({"image", "connections", "steps"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPlatform:
    """The platform's settings for one process."""

    image: str
    connections: Mapping[str, SecretKeySection]
    steps: StepsSection
    settings: PlatformSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformFile:
    """A valid dpone.platform.v1 document, with the positions of its lines."""

    section: PlatformSection
    document: Document

    def overridden_processes(self) -> tuple[str, ...]:
        """Names of the processes that have an entry under `processes`."""
        return tuple(self.section.processes)

    def of(self, process: str) -> ProcessPlatform:
        """The settings of one process. Raises ManifestInvalidError when the merged settings contradict each other."""
        origin: Path = ("processes", process)
        override = _mapping(_mapping(self.document.value.get("processes")).get(process))
        return ProcessPlatform(
            image=str(override.get("image") or self.section.image),
            connections={
                **self.section.connections,
                **(self.section.processes[process].connections if process in self.section.processes else {}),
            },
            steps=self._merge_layers(
                StepsSection,
                Layer(origin=("steps",), value=_mapping(self.document.value.get("steps"))),
                Layer(origin=(*origin, "steps"), value=_mapping(override.get("steps"))),
            ),
            settings=self._merge_layers(
                PlatformSettings,
                Layer(origin=("defaults",), value=_mapping(self.document.value.get("defaults"))),
                Layer(
                    origin=origin, value={name: item for name, item in override.items() if name not in _OF_A_PROCESS}
                ),
            ),
        )

    def require_used(self, process: str, refs: Iterable[str], *, kinds: frozenset[StepKind]) -> None:
        """Raises ManifestInvalidError for settings under `processes.<process>` that have no effect on it.

        `refs` are the connections the process uses, `kinds` the kinds of its steps.
        """
        entry = self.section.processes.get(process)
        if entry is None:
            return
        at: Path = ("processes", process)
        unused: list[tuple[Path, str]] = [
            ((*at, "connections", ref), f"process '{process}' does not use connection '{ref}'")
            for ref in entry.connections
            if ref not in set(refs)
        ]
        for kind, what in _OPTIONAL_STEPS.items():
            if kind.value in entry.steps.model_fields_set and kind not in kinds:
                unused.append(((*at, "steps", kind.value), f"process '{process}' has no {what} of its own"))
        if "poll_interval_seconds" in entry.model_fields_set and not self.of(process).settings.deferrable:
            unused.append(((*at, "poll_interval_seconds"), f"process '{process}' is not deferrable"))
        self._refuse(Finding(code=CONFLICT, message=text, path=path, fix="remove it") for path, text in unused)

    def require_known(self, names: Iterable[str]) -> None:
        """Raises ManifestInvalidError for an entry under `processes` that does not name a process of the project."""
        known = tuple(names)
        unknown = [name for name in self.section.processes if name not in known]
        self._refuse(
            Finding(
                code=UNKNOWN_FIELD,
                message=f"no manifest of the project has a process '{name}'",
                path=("processes", name),
                fix=f"did you mean '{guess}'?" if (guess := closest(name, known)) else "remove the entry",
            )
            for name in unknown
        )

    def _merge_layers(self, model: type[_Model], *layers: Layer) -> _Model:
        merged = merge(*layers)
        result = findings_of(model, merged.value)
        if isinstance(result, model):
            return result
        assert isinstance(result, tuple)
        raise ManifestInvalidError(
            sort_problems(problem_at(self.document, found, merged.authored_path(found.path)) for found in result)
        )

    def _refuse(self, findings: Iterable[Finding]) -> None:
        problems = sort_problems(problem_at(self.document, found, found.path) for found in findings)
        if problems:
            raise ManifestInvalidError(problems)


def read_platform(content: bytes, name: str, overlay: tuple[bytes, str] | None = None) -> PlatformFile:
    """Reads a platform file and, merged over it, the one of an environment: mappings key by key, lists and single
    values replace.

    `overlay` is its content and name. Raises ManifestInvalidError, positions in the file that authored what is wrong,
    when both together are no valid dpone.platform.v1 document.
    """
    document = read_document(content, file=name)
    if overlay is not None:
        document = _overlaid(document, read_document(overlay[0], file=overlay[1]))
    section = findings_of(PlatformSection, document.value)
    nulls = tuple(null_findings(document.value))
    found = (*nulls, *section) if isinstance(section, tuple) else nulls
    if found or isinstance(section, tuple):
        raise ManifestInvalidError(sort_problems(problem_at(document, one, one.path) for one in found))
    return PlatformFile(section=section, document=document)


def _overlaid(base: Document, over: Document) -> Document:
    merged = merge(Layer(origin=(), value=base.value), Layer(origin=(), value=over.value))
    return Document(
        file=over.file,
        value=merged.value,
        keys={**base.keys, **over.keys},
        values={**base.values, **over.values},
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
