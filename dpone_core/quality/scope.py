"""The logical scope of a native transfer: which partitions count, and how their rows add up.

P planned, A active in this attempt, S committed and selected for skip, R skipped ones reactivated by a mixed full
refresh. Every planned partition counts exactly once: P = A + (S - R), R inside both S and A. An attempt's own counters
are never used. Source: S0 "Native logical scope", Facts 5 "native scope evidence".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from dpone_core.model.fingerprint import fingerprint, is_fingerprint
from dpone_core.model.outcome import count_or_none
from dpone_core.quality.gates import QualitySideSnapshot

QUALITY_SCOPE_KIND: Final = "dpone.native_transfer.quality_scope.v1"


class QualityScopeError(ValueError):
    """The partition sets or a summary contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityScopeSummary:
    """What evidence may know of a scope: a digest and aggregate counts, no partition id and no bound.

    Raises QualityScopeError unless active + skipped - reactivated = planned and reactivated <= skipped.
    """

    digest: str
    planned_count: int
    active_count: int
    skipped_committed_count: int
    reactivated_count: int
    source_rows: int | None
    target_rows: int | None

    def __post_init__(self) -> None:
        counts = (self.planned_count, self.active_count, self.skipped_committed_count, self.reactivated_count)
        rows = (self.source_rows, self.target_rows)
        if not is_fingerprint(self.digest) or any(count_or_none(count) is None for count in counts):
            raise QualityScopeError("a scope summary needs a digest and non-negative counts")
        if any(count is not None and count_or_none(count) is None for count in rows):
            raise QualityScopeError("scope rows are non-negative or unavailable")
        if self.active_count + self.skipped_committed_count - self.reactivated_count != self.planned_count:
            raise QualityScopeError("active + skipped - reactivated must be planned")
        if self.reactivated_count > min(self.skipped_committed_count, self.active_count):
            raise QualityScopeError("a reactivated partition is both skipped and active")

    def as_json(self) -> dict[str, object]:
        return {
            "kind": QUALITY_SCOPE_KIND,
            "digest": self.digest,
            "planned_count": self.planned_count,
            "active_count": self.active_count,
            "skipped_committed_count": self.skipped_committed_count,
            "reactivated_count": self.reactivated_count,
            "source_rows": self.source_rows,
            "target_rows": self.target_rows,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeSnapshots:
    """Both sides of the logical workload. Hashes are None: no aggregate-hash contract exists across partitions."""

    source: QualitySideSnapshot
    target: QualitySideSnapshot
    summary: QualityScopeSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeTransferQualityScope:
    """Partition identities of one attempt; raises QualityScopeError when the sets are not a partition of P.

    Row arguments map partition ids to whatever a checkpoint or artifact says; a missing or malformed value of a
    contributing partition makes the whole sum None. `committed` holds matching COMMITTED checkpoints only.
    """

    planned: frozenset[str]
    active: frozenset[str]
    skipped: frozenset[str] = frozenset()
    reactivated: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.reactivated <= self.skipped or not self.reactivated <= self.active:
            raise QualityScopeError("reactivated partitions must be skipped ones that are active again")
        if self.active & self.kept:
            raise QualityScopeError("a partition is both active and skipped")
        if self.active | self.kept != self.planned:
            raise QualityScopeError("active and skipped partitions do not make up the plan")

    @classmethod
    def of(
        cls,
        *,
        planned: Iterable[str],
        active: Iterable[str],
        skipped: Iterable[str] = (),
        reactivated: Iterable[str] = (),
    ) -> NativeTransferQualityScope:
        """From sequences, in which a repeated id is an error and not one partition."""
        return cls(
            planned=_distinct(planned),
            active=_distinct(active),
            skipped=_distinct(skipped),
            reactivated=_distinct(reactivated),
        )

    @property
    def kept(self) -> frozenset[str]:
        """S - R: committed partitions whose earlier rows still count."""
        return self.skipped - self.reactivated

    @property
    def is_resume_only(self) -> bool:
        return not self.active

    @property
    def digest(self) -> str:
        """Correlates evidence of one scope; not a secret and no replacement for a checkpoint's identity."""
        return fingerprint(
            {
                "planned": sorted(self.planned),
                "active": sorted(self.active),
                "skipped": sorted(self.skipped),
                "reactivated": sorted(self.reactivated),
            }
        )

    def projected_snapshots(
        self, *, extracted: Mapping[str, object], staged: Mapping[str, object], committed: Mapping[str, object]
    ) -> ScopeSnapshots:
        """Before finalize: target = committed rows of S - R plus staged rows of A."""
        target = _total((_rows(committed, self.kept), _rows(staged, self.active)))
        return self._snapshots(self._source_rows(extracted, committed), target)

    def committed_snapshots(
        self, *, extracted: Mapping[str, object], committed: Mapping[str, object]
    ) -> ScopeSnapshots:
        """After the native checkpoint commit: target = COMMITTED checkpoint rows of all of P."""
        return self._snapshots(self._source_rows(extracted, committed), _rows(committed, self.planned))

    def resume_snapshots(self, *, committed: Mapping[str, object]) -> ScopeSnapshots:
        """All skipped: both sides are the committed rows; raises QualityScopeError when a partition is active."""
        if not self.is_resume_only:
            raise QualityScopeError("a resume-only scope has no active partition")
        rows = _rows(committed, self.planned)
        return self._snapshots(rows, rows)

    def _source_rows(self, extracted: Mapping[str, object], committed: Mapping[str, object]) -> int | None:
        return _total((_rows(extracted, self.active), _rows(committed, self.kept)))

    def _snapshots(self, source_rows: int | None, target_rows: int | None) -> ScopeSnapshots:
        summary = QualityScopeSummary(
            digest=self.digest,
            planned_count=len(self.planned),
            active_count=len(self.active),
            skipped_committed_count=len(self.skipped),
            reactivated_count=len(self.reactivated),
            source_rows=source_rows,
            target_rows=target_rows,
        )
        return ScopeSnapshots(
            source=QualitySideSnapshot(row_count=source_rows),
            target=QualitySideSnapshot(row_count=target_rows),
            summary=summary,
        )


def _distinct(identities: Iterable[str]) -> frozenset[str]:
    listed = tuple(identities)
    distinct = frozenset(listed)
    if len(distinct) != len(listed):
        raise QualityScopeError("a partition id is listed twice")
    return distinct


def _rows(stated: Mapping[str, object], partitions: frozenset[str]) -> int | None:
    return _total(count_or_none(stated.get(partition)) for partition in partitions)


def _total(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return count_or_none(total)
