"""The partitions over which the gates of a native transfer are evaluated, and the sums of their rows.

Sets of partitions: P planned; A active, read in this attempt; S committed and skipped; R skipped ones that a full
refresh reads again. Every planned partition counts exactly once: P = A + (S - R), with R inside both S and A. The
counters of the attempt are not used, because it reads only a part. Contract: NAT-01, NAT-02, NAT-03, NAT-04, NAT-25,
NAT-76.
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
    """The partition sets of a scope, or the counts of a summary, contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityScopeSummary:
    """What evidence shows of a scope: a digest and counts, but no partition ids and no key bounds.

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
            raise QualityScopeError(
                "a scope summary needs a `sha256:` digest and partition counts that are non-negative integers"
            )
        if any(count is not None and count_or_none(count) is None for count in rows):
            raise QualityScopeError("the rows of a scope summary must be non-negative integers or None")
        if self.active_count + self.skipped_committed_count - self.reactivated_count != self.planned_count:
            raise QualityScopeError(
                "the partition counts of a scope must satisfy active + skipped - reactivated = planned"
            )
        if self.reactivated_count > min(self.skipped_committed_count, self.active_count):
            raise QualityScopeError("a scope cannot have more reactivated partitions than skipped or active ones")

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
    """Snapshots of source and target over all partitions of a scope. They have no hashes, which do not add up."""

    source: QualitySideSnapshot
    target: QualitySideSnapshot
    summary: QualityScopeSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeTransferQualityScope:
    """The partition ids of one attempt, by set. Raises QualityScopeError unless every planned one counts exactly once.

    The methods take rows by partition id, as checkpoints or staging state them; a missing or malformed number makes the
    whole sum None. `committed` must hold the rows of COMMITTED checkpoints of this plan only.
    """

    planned: frozenset[str]
    active: frozenset[str]
    skipped: frozenset[str] = frozenset()
    reactivated: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.reactivated <= self.skipped or not self.reactivated <= self.active:
            raise QualityScopeError("every reactivated partition must be among the skipped and among the active ones")
        if self.active & self.kept:
            raise QualityScopeError("a partition is both active and skipped, but not reactivated")
        if self.active | self.kept != self.planned:
            raise QualityScopeError("the active and the skipped partitions together are not the planned ones")

    @classmethod
    def of(
        cls,
        *,
        planned: Iterable[str],
        active: Iterable[str],
        skipped: Iterable[str] = (),
        reactivated: Iterable[str] = (),
    ) -> NativeTransferQualityScope:
        """The scope from sequences of ids. Raises QualityScopeError also for an id that is listed twice."""
        return cls(
            planned=_distinct(planned),
            active=_distinct(active),
            skipped=_distinct(skipped),
            reactivated=_distinct(reactivated),
        )

    @property
    def kept(self) -> frozenset[str]:
        """S - R: the skipped partitions that are not read again, so that their committed rows count."""
        return self.skipped - self.reactivated

    @property
    def is_resume_only(self) -> bool:
        """Whether no partition is left to read."""
        return not self.active

    @property
    def digest(self) -> str:
        """Fingerprint of the four sets, to recognise evidence of the same scope. Not a secret."""
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
        """The snapshots before `finalize`: target rows are the committed rows of S - R plus the staged rows of A."""
        target = _total((_rows(committed, self.kept), _rows(staged, self.active)))
        return self._snapshots(self._source_rows(extracted, committed), target)

    def committed_snapshots(
        self, *, extracted: Mapping[str, object], committed: Mapping[str, object]
    ) -> ScopeSnapshots:
        """The snapshots after all checkpoints are committed: target rows are the committed rows of P."""
        return self._snapshots(self._source_rows(extracted, committed), _rows(committed, self.planned))

    def resume_snapshots(self, *, committed: Mapping[str, object]) -> ScopeSnapshots:
        """The snapshots when nothing is read: both sides are the committed rows. Raises QualityScopeError otherwise."""
        if not self.is_resume_only:
            raise QualityScopeError("expected a scope without active partitions, because a resume-only load reads none")
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
        raise QualityScopeError("a partition id is listed twice in one set of a scope")
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
