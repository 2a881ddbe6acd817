"""What happened: counts for each lane and disturbance, and every violation with the way to see it again."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Final


@dataclass(slots=True)
class Line:
    """One lane under one disturbance."""

    iterations: int = 0
    commits: int = 0
    retries: int = 0
    violations: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    settled: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, object]:
        counts = {name: getattr(self, name) for name in ("iterations", "commits", "retries", "violations")}
        return {**counts, "refusals": dict(self.refusals), "settled": dict(self.settled)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    lane: str
    iteration: int
    disturbance: str
    what: str
    replay: str
    directory: str
    commands: tuple[str, ...]


@dataclass(slots=True)
class Table:
    """`unverified` is why a disturbance was not had in a lane."""

    seed: int
    lines: dict[tuple[str, str], Line] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    unverified: dict[tuple[str, str], str] = field(default_factory=dict)

    def line(self, lane: str, disturbance: str) -> Line:
        return self.lines.setdefault((lane, disturbance), Line())

    def add(self, violation: Violation) -> None:
        self.violations.append(violation)
        self.line(violation.lane, violation.disturbance).violations += 1

    @property
    def iterations(self) -> int:
        return sum(line.iterations for line in self.lines.values())

    def as_json(self) -> str:
        document = {
            "seed": self.seed,
            "iterations": self.iterations,
            "violations": [asdict(violation) for violation in self.violations],
            "lines": [{"lane": lane, "disturbance": kind, **line.as_json()} for (lane, kind), line in self._sorted()],
            "unverified": [
                {"lane": lane, "disturbance": kind, "reason": reason}
                for (lane, kind), reason in sorted(self.unverified.items())
            ],
        }
        return json.dumps(document, indent=2) + "\n"

    def as_text(self) -> str:
        """Lanes and disturbances that were met, then what could not be had, then the violations."""
        rows = [
            (lane, kind, str(line.iterations), str(line.commits), str(line.retries), str(line.violations), _said(line))
            for (lane, kind), line in self._sorted()
        ]
        rows.append(("all", "", *self._totals(), ""))
        widths = [max(len(row[column]) for row in (_HEAD, *rows)) for column in range(6)]
        text = [_aligned(row, widths) for row in (_HEAD, *rows)]
        reasons: dict[str, list[str]] = {}
        for (lane, kind), reason in sorted(self.unverified.items()):
            reasons.setdefault(f"UNVERIFIED {kind}: {reason}", []).append(lane)
        text += [f"{reason} ({', '.join(lanes)})" for reason, lanes in sorted(reasons.items())]
        for violation in self.violations:
            text += ["", f"VIOLATION {violation.lane} iteration {violation.iteration} ({violation.disturbance})"]
            text += [f"  {violation.what}", f"  replay: {violation.replay}", f"  kept in {violation.directory}"]
            text += [f"    $ {command}" for command in violation.commands]
        text += ["", f"seed {self.seed}: {self.iterations} iterations, {len(self.violations)} violations"]
        return "\n".join(text) + "\n"

    def _sorted(self) -> list[tuple[tuple[str, str], Line]]:
        return sorted(self.lines.items())

    def _totals(self) -> tuple[str, str, str, str]:
        lines = self.lines.values()
        return (
            str(self.iterations),
            str(sum(line.commits for line in lines)),
            str(sum(line.retries for line in lines)),
            str(len(self.violations)),
        )


_HEAD: Final = (
    "lane",
    "disturbance",
    "iterations",
    "commits",
    "retries",
    "violations",
    "refusals [what settled them]",
)


def _said(line: Line) -> str:
    refusals = [f"{code} {count}" for code, count in sorted(line.refusals.items())]
    return ", ".join([*refusals, *(f"[{what} {count}]" for what, count in sorted(line.settled.items()))])


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    words = [row[0].ljust(widths[0]), row[1].ljust(widths[1])]
    words += [row[column].rjust(widths[column]) for column in range(2, 6)]
    return "  ".join([*words, row[6]]).rstrip()
