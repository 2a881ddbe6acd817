"""A control file cut anywhere inside its last line keeps every earlier row, and the next row starts a new line."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_core.errors import ConnectorError
from dpone_core.testing.port_conformance import control_row, control_table
from tests.connectors.test_files_sink import controls

LAST = "żółć\U0001f600"


def test_every_cut_of_the_last_line_keeps_the_rows_before_it_and_takes_the_next(tmp_path: Path) -> None:
    table = control_table()
    controls(tmp_path).ensure(table)
    controls(tmp_path).upsert(table, [control_row("a")])
    path = tmp_path / table.schema / f"{table.name}.jsonl"
    before = path.read_bytes()
    controls(tmp_path).upsert(table, [control_row("b", note=LAST)])
    whole = path.read_bytes()
    assert whole.startswith(before)
    for end in range(len(before), len(whole)):
        path.write_bytes(whole[:end])
        assert [row["k"] for row in controls(tmp_path).read(table, {})] == ["a"], end
        controls(tmp_path).upsert(table, [control_row("c")])
        assert [row["k"] for row in controls(tmp_path).read(table, {})] == ["a", "c"], end


def test_every_cut_of_a_replacement_keeps_the_row_that_was_or_has_the_new_one(tmp_path: Path) -> None:
    """A disk that fills up keeps the first bytes of a write: a cursor must not get lost between two lines."""
    table = control_table()
    controls(tmp_path).ensure(table)
    old, new = control_row("a"), control_row("a", note=LAST)
    controls(tmp_path).upsert(table, [old])
    path = tmp_path / table.schema / f"{table.name}.jsonl"
    before = path.read_bytes()
    assert controls(tmp_path).compare_and_set(table, {"k": "a"}, old, new)
    whole = path.read_bytes()
    for end in range(len(before), len(whole)):
        path.write_bytes(whole[:end])
        assert controls(tmp_path).read(table, {}) == (old,), end
    path.write_bytes(whole)
    assert controls(tmp_path).read(table, {}) == (new,)


def test_a_line_damaged_in_the_middle_of_the_file_is_an_error_and_never_skipped(tmp_path: Path) -> None:
    table = control_table()
    controls(tmp_path).ensure(table)
    controls(tmp_path).upsert(table, [control_row("a")])
    controls(tmp_path).upsert(table, [control_row("b")])
    path = tmp_path / table.schema / f"{table.name}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[-2] = lines[-2][:10] + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(ConnectorError) as raised:
        controls(tmp_path).read(table, {})
    assert raised.value.code == "control_table_unreadable"
