"""Computes rows and bytes per second of a finished step or run (LIFE-17).

The rate is the counter divided by the wall clock time. A publication that only swaps metadata therefore shows a high
rate; read it together with the phase of the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

THROUGHPUT_SCHEMA: Final = "dpone.runtime.throughput.v1"
_ROW_COUNTERS: Final = (
    "rows",
    "row_count",
    "loaded_rows",
    "staged_rows",
    "inserted_rows",
    "extracted_rows",
    "written_rows",
)
_RUN_COUNTERS: Final = ("loaded_rows", "inserted_rows", "staging_rows", "extracted_rows", "final_rows")
_BYTE_COUNTERS: Final = ("bytes", "byte_count", "extracted_bytes", "written_bytes")
_DIGITS: Final = 6


def step_throughput(counters: Mapping[str, object], duration_seconds: float) -> dict[str, object] | None:
    """The rates of a step; None unless it took time and counted at least one row or byte."""
    return _throughput("load_step", counters, duration_seconds, _ROW_COUNTERS)


def run_throughput(counters: Mapping[str, object], duration_seconds: float) -> dict[str, object] | None:
    """The rates of a run; None unless it took time and counted at least one row or byte."""
    return _throughput("run", counters, duration_seconds, _RUN_COUNTERS)


def _throughput(
    scope: str, counters: Mapping[str, object], duration_seconds: float, row_keys: tuple[str, ...]
) -> dict[str, object] | None:
    rows = _first_positive(counters, row_keys)
    sizes = _first_positive(counters, _BYTE_COUNTERS)
    if duration_seconds <= 0 or (rows is None and sizes is None):
        return None
    rates: dict[str, object] = {
        "schema_version": THROUGHPUT_SCHEMA,
        "scope": scope,
        "duration_seconds": round(duration_seconds, _DIGITS),
        "rate_type": "counter_over_wall_clock",
        "confidence": "measured",
    }
    if rows is not None:
        key, count = rows
        rates |= {
            "row_count": count,
            "row_count_source": key,
            "rows_per_second": round(count / duration_seconds, _DIGITS),
        }
    if sizes is not None:
        key, count = sizes
        rates |= {
            "byte_count": count,
            "byte_count_source": key,
            "bytes_per_second": round(count / duration_seconds, _DIGITS),
            "mib_per_second": round(count / duration_seconds / (1 << 20), _DIGITS),
        }
    return rates


def _first_positive(counters: Mapping[str, object], keys: tuple[str, ...]) -> tuple[str, int] | None:
    for key in keys:
        value = counters.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return key, value
    return None
