"""A lane: one source, one sink, one strategy, in a directory of its own; one iteration after the other.

`Lane.iterate` changes the source, runs under a disturbance, holds what is said against what is there, and then does
what an operator would until a run has succeeded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import yaml

from tests.forks import Forks
from tests.soak.disturbances import Disturbance, Habit, Kind, offered
from tests.soak.model import APPEND, MERGE, REFRESH, REPLACE, SourceModel, draws
from tests.soak.operating import LostOperatorError, clean_up, decide
from tests.soak.processes import Ended, Place, Started
from tests.soak.sinks import SINKS, Seen, Sink
from tests.soak.sources import SOURCES, Source
from tests.soak.table import Line
from tests.soak.truth import Step, violations, violations_at_rest
from tests.soak.volumes import Volume

MOST_TRIES: Final = 8
_EVIDENCE_MEBIBYTES: Final = 16
_TARGET_MEBIBYTES: Final = {"duckdb": 64, "files": 32, "chdb": 256}
_MOST_LEFT: Final = {"duckdb": 1_200_000, "files": 40_000, "chdb": 1_000_000}
"""Bytes that a run writes into its target, about; into its evidence, `_MOST_EVIDENCE_LEFT`."""
_MOST_EVIDENCE_LEFT: Final = 100_000


class Violated(Exception):
    """A violation; the lane ends with it, for what comes behind would follow from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """`ranges`: in key ranges, by two workers where the sink can."""

    source: str
    sink: str
    strategy: str
    ranges: bool = False

    def __str__(self) -> str:
        return "-".join((self.source, self.sink, self.strategy, *(["ranges"] if self.ranges else [])))


def routes() -> Iterator[Route]:
    """Every strategy of every sink, in key ranges too where that exists, with sources taking turns."""
    by_sink = {
        "duckdb": ("sqlite", "duckdb", "mysql", "sqlite", "sqlite", "postgres", "duckdb"),
        "files": ("duckdb", "sqlite", None, None, None, "sqlite", None),
        "postgres": ("sqlite", "postgres", "mysql", "sqlite", "postgres", "sqlite", "sqlite"),
        "chdb": ("sqlite", "sqlite", "duckdb", "sqlite", "mysql", "sqlite", "sqlite"),
        "clickhouse": ("postgres", "sqlite", "sqlite", "duckdb", "sqlite", "sqlite", "mysql"),
    }
    plain = [(mode, False) for mode in (REFRESH, APPEND, MERGE, REPLACE)]
    ways = [*plain, *((mode, True) for mode in (REFRESH, APPEND, REPLACE))]
    for sink, sources in by_sink.items():
        for (strategy, ranges), source in zip(ways, sources, strict=True):
            if source is not None:
                yield Route(source=source, sink=sink, strategy=strategy, ranges=ranges)


def manifest(route: Route, source: Source, sink: Sink) -> dict[str, Any]:
    options: dict[str, Any] = {}
    design: dict[str, Any] = {}
    strategy: dict[str, Any] = {"mode": route.strategy}
    if route.strategy in (APPEND, MERGE):
        options["incremental"] = {"cursor_column": "updated_at"}
    if route.strategy == MERGE:
        strategy["unique_key"] = ["id"]
    if route.strategy == REPLACE:
        design["partition_by"] = {"column": "day"}
    if route.ranges:
        column = "day" if route.strategy == REPLACE else "id"
        options["partitioning"] = {"column": column, "num_partitions": 3, "workers": 1 if route.sink == "files" else 2}
    document: dict[str, Any] = {
        "kind": "dpone.flow.v1",
        "name": "orders",
        "source": {**source.section, "options": options},
        "sink": {
            "type": sink.kind,
            "connection_ref": "dwh",
            "table": {"schema": "raw", "name": "orders"},
            "strategy": strategy,
            "options": {"physical_design": design} if design else {},
        },
        "quality": {"gates": [{"type": "row_count_reconciliation"}]},
    }
    return {**document, "state": {"type": "sink"}} if route.strategy in (APPEND, MERGE) else document


@dataclass(slots=True)
class Lane:
    """`seen` is what the target was found to hold last; `dead` are run ids whose processes did not succeed."""

    route: Route
    seed: int
    place: Place
    source: Source
    sink: Sink
    target: Volume | None
    evidence: Volume
    model: SourceModel
    seen: Seen
    habit: Habit = field(default_factory=lambda: Habit(seconds=3.0, phases=()))
    dead: list[str] = field(default_factory=list)
    started: int = 0

    def kinds(self) -> dict[Kind, str | None]:
        is_apart = self.target is not None and self.target.is_mounted
        return offered(self.source, self.sink, target_full=is_apart, evidence_full=self.evidence.is_mounted)

    def drawn(self, number: int) -> Disturbance:
        kinds = [kind for kind, reason in self.kinds().items() if reason is None]
        return Disturbance.drawn(draws(self.seed, str(self.route), f"{number}/disturbance"), kinds)

    def rest(self, number: int, line: Line) -> None:
        """A quiet point: the source grows, an undisturbed run must succeed, and nothing may stay behind."""
        self._grow(number, "quiet")
        line.iterations += 1
        run = Started(self.place, self._new_id(), name="quiet").ended()
        step = self._observed(Kind.NONE, (run,), line)
        self.habit = Habit(seconds=run.seconds, phases=run.phases)
        _refuse([*violations(step), *violations_at_rest(step)])
        if self.seen.leftovers:
            self.seen = clean_up(self.place, self.dead, self.sink.look)
            _refuse([f"dpone cleanup of {self.dead} leaves {name}" for name in self.seen.leftovers])
        self.dead.clear()
        rmtree(self.place.evidence / "runs", ignore_errors=True)

    def iterate(self, number: int, line: Line) -> None:
        self.place.commands.clear()
        self._grow(number, "rows")
        line.iterations += 1
        disturbance = self.drawn(number)
        runs = self._disturbed(disturbance)
        _refuse(violations(self._observed(disturbance.kind, runs, line)))
        failed = [run for run in runs if not run.succeeded]
        self.dead += [run.run_id for run in failed]
        for run in failed:
            line.refusals[run.code] += 1
        if failed:
            self._operate(max(failed, key=lambda run: run.receipt is not None), line, number)

    def _grow(self, number: int, what: str) -> None:
        self.model.change(draws(self.seed, str(self.route), f"{number}/{what}"))
        self.source.write(self.model.rows)

    def _disturbed(self, disturbance: Disturbance) -> tuple[Ended, ...]:
        full = {Kind.EVIDENCE_FULL: self.evidence, Kind.TARGET_FULL: self.target}.get(disturbance.kind)
        clock = f"{self.place.clock_offset + disturbance.clock:+d}s" if disturbance.kind is Kind.CLOCK else None
        disturbance.plan(self.source, self.sink)
        if full is not None:
            most = _MOST_EVIDENCE_LEFT if full is self.evidence else _MOST_LEFT[self.route.sink]
            full.fill(int(most * disturbance.left))
        try:
            first = Started(self.place, self._new_id(), name="first", clock=clock)
            started = [first]
            if disturbance.is_rival:
                first.wait(disturbance.rival_at * self.habit.seconds)
                run_id = first.run_id if disturbance.kind is Kind.RIVAL_SAME else self._new_id()
                started.append(Started(self.place, run_id, name="rival"))
            disturbance.strike(first, self.source, self.sink, self.habit)
            return tuple(run.ended() for run in started)
        finally:
            disturbance.heal(self.source, self.sink)
            if full is not None:
                full.free()

    def _operate(self, run: Ended, line: Line, number: int) -> None:
        """From a run that did not succeed until one has: of two that were on their way, one that said something."""
        draw = draws(self.seed, str(self.route), f"{number}/retries")
        for tries in range(MOST_TRIES):
            self.dead.append(run.run_id)
            try:
                decision = decide(
                    self.place,
                    run,
                    self.seen,
                    strategy=self.route.strategy,
                    source=self.model.rows,
                    tries=tries if self.sink.is_shared else None,
                )
            except LostOperatorError as error:
                raise Violated(str(error)) from error
            line.settled[decision.what] += 1
            line.retries += 1
            if draw.random() < 0.3 and not self.route.ranges:
                self._grow(number, f"retry {tries}")
            run = Started(self.place, decision.run_id or self._new_id(), name=f"retry{tries}").ended()
            _refuse(violations(self._observed(Kind.NONE, (run,), line)))
            if run.succeeded:
                return
            line.refusals[run.code] += 1
        raise Violated(f"{MOST_TRIES} runs as the reports advise, and none succeeds: {run.code}")

    def _observed(self, kind: Kind, runs: tuple[Ended, ...], line: Line) -> Step:
        before, self.seen = self.seen, self.sink.look()
        line.commits += sum(run.succeeded for run in runs)
        step = Step(
            strategy=self.route.strategy,
            piecewise=(self.route.ranges and self.route.strategy != REFRESH) or self.route.sink == "files",
            kind=kind,
            source=self.model.rows,
            before=before,
            after=self.seen,
            runs=runs,
        )
        (self.place.root / "last_step.json").write_text(
            json.dumps({"source": step.source, "before": before.rows, "after": self.seen.rows, "wanted": step.wanted}),
            encoding="utf-8",
        )
        return step

    def _new_id(self) -> str:
        self.started += 1
        return f"run{self.started:04d}"


def _refuse(found: Any) -> None:
    if sentences := list(found):
        raise Violated("; ".join(sentences))


@contextmanager
def opened(route: Route, seed: int, root: Path, forks: Forks | None) -> Iterator[Lane]:
    """A lane whose target is absent yet. What it left is kept when the block raises."""
    root.mkdir(parents=True)
    with ExitStack() as stack:
        evidence = Volume.at(root / "evidence", _EVIDENCE_MEBIBYTES)
        size = _TARGET_MEBIBYTES.get(route.sink)
        target = None if size is None else Volume.at(root / "target", size)
        keep = True
        try:
            source = stack.enter_context(SOURCES[route.source](root))
            sink = stack.enter_context(SINKS[route.sink](root if target is None else target.path))
            (root / "m.yaml").write_text(yaml.safe_dump(manifest(route, source, sink)), encoding="utf-8")
            environment = {
                "DPONE_CONN_SHOP": source.uri,
                "DPONE_CONN_DWH": sink.uri,
                "DPONE_EVIDENCE_DIR": str(evidence.path),
            }
            yield Lane(
                route=route,
                seed=seed,
                place=Place(root, environment, forks),
                source=source,
                sink=sink,
                target=target,
                evidence=evidence,
                model=SourceModel(route.strategy),
                seen=sink.look(),
            )
            keep = False
        finally:
            for volume in (evidence, target):
                if volume is not None:
                    volume.close(keep=keep)
