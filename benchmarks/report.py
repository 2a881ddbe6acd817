"""Makes docs/reference/benchmarks.md and its charts of results.json among the benchmark's data.

python report.py [RESULTS.json]
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from measuring import Row
from routes import DATA

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
PAGE: Final = DOCS / "reference" / "benchmarks.md"
_BAR: Final = 22
_LABEL: Final = 190
_WIDTH: Final = 720
_INTRO: Final = """# Benchmarks

Whole processes, interpreter start included, in turn on one machine ({cpus} cores, Python {python}, {system}). Governed
means: staging, two gates, counts and NULL counts on every side, audit tables, evidence files, atomic publish. The pump
is the same reader and the same writer by hand, with exact decimals and without any of that. Ratios are medians of runs
in turn; row counts, `sum(amount)` and NULL counts of every target are compared. Seconds of one machine say little about
another: run `make bench`.
"""


def chart(title: str, table: Sequence[Row]) -> str:
    """A bar per candidate, seconds; text stays text, and colours carry no meaning of their own."""
    longest = max(float(str(row["median_seconds"])) for row in table)
    height = 34 + len(table) * (_BAR + 8)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="20" font-weight="600" fill="#1f2933">{escape(title)}</text>',
    ]
    for index, row in enumerate(table):
        seconds = float(str(row["median_seconds"]))
        top = 32 + index * (_BAR + 8)
        width = max(2.0, (_WIDTH - _LABEL - 150) * seconds / longest)
        colour = "#1f6feb" if str(row["what"]).startswith("dpone") else "#9aa5b1"
        lines += [
            f'<text x="{_LABEL - 8}" y="{top + 16}" text-anchor="end" fill="#1f2933">{escape(str(row["what"]))}</text>',
            f'<rect x="{_LABEL}" y="{top}" width="{width:.1f}" height="{_BAR}" rx="3" fill="{colour}"/>',
            f'<text x="{_LABEL + width + 8:.1f}" y="{top + 16}" fill="#1f2933">{seconds:.1f} s, {row["ratio"]}x</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def markdown_table(table: Sequence[Row]) -> list[str]:
    lines = [
        "| | median s | ratio | CPU s | rows/s | peak MiB | runs |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in table:
        rate = f"{row['rows_per_second']:,}" if row["rows_per_second"] else ""
        note = "" if row.get("sum_is_exact", True) else " (sum differs)"
        measured = [row[name] for name in ("median_seconds", "ratio", "cpu_seconds")]
        cells = (f"{row['what']}{note}", *measured, rate, row["peak_mib"], row["runs"])
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def charted(title: str, table: Sequence[Row]) -> list[str]:
    """A section with its chart, which lies among the images of the documentation."""
    words = title.replace("->", "to").replace(" rows x 12 columns", "").replace(",000,000", "m").replace(",000", "k")
    name = f"bench-{re.sub('[^a-z0-9]+', '-', words.lower()).strip('-')}.svg"
    (DOCS / "images" / name).write_text(chart(title, table))
    return ["", f"## {title}", "", f"![{title}](../images/{name})", "", *markdown_table(table)]


def resumed(found: Sequence[Row]) -> list[str]:
    lines = [
        "",
        "## One lost range of a native transfer",
        "",
        "The first attempt stages all ranges but the last, whose greatest row does not fit its column, and fails",
        "before anything is published. The value is put right and the same run is started again. Rows are those that",
        "the step receipts state.",
        "",
        "| source | ranges | rows | first attempt | read again | share | in the target |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    for each in found:
        first = f"exit {each['first_exit_code']}, {each['first_target_state']}"
        again, final = f"{each['second_extracted_rows']:,}", f"{each['second_final_rows']:,}"
        cells = (each["source"], each["ranges"], f"{each['rows']:,}", first, again, each["share_read_again"], final)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def main(path: Path) -> None:
    results = json.loads(path.read_text())
    lines = _INTRO.format(**results["machine"]).splitlines()
    images = DOCS / "images"
    images.mkdir(parents=True, exist_ok=True)
    for stale in images.glob("bench-*.svg"):
        stale.unlink()
    for kind in ("route ", "native "):
        for key in sorted((key for key in results if key.startswith(kind)), key=_by_route_and_rows):
            lines += charted(key.removeprefix(kind), results[key])
    if "resume" in results:
        lines += resumed(results["resume"])
    for key in sorted(key for key in results if key.startswith("rules ")):
        title = f"What rules about columns cost (Parquet -> {key.removeprefix('rules ')})"
        lines += ["", f"## {title}", "", *markdown_table(results[key])]
    for key, title in (
        ("governance", "What governance costs (Parquet -> embedded ClickHouse)"),
        ("memory", "Peak memory by rows"),
        ("start_up", "Start-up, against `python -c pass`"),
    ):
        if key in results:
            lines += ["", f"## {title}", "", *markdown_table(results[key])]
    if "parse_cost" in results:
        parsed = results["parse_cost"]
        lines += [
            "",
            "## Parsing DAGs from run-specs",
            "",
            f"{parsed['dags']} DAGs with {parsed['tasks']} steps against the same DAGs by hand with bare operators,"
            f" imports excluded: {parsed['ratio']}x.",
        ]
    lines += ["", "## Versions", "", *(f"- {name} {number}" for name, number in sorted(results["versions"].items()))]
    PAGE.write_text("\n".join(lines) + "\n")
    print(f"Written: {PAGE.relative_to(DOCS.parent)}")


def _by_route_and_rows(key: str) -> tuple[str, int]:
    rows = re.search(r"([\d,]+) rows", key)
    return key.split(",")[0], int(rows.group(1).replace(",", "")) if rows else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "results.json")
