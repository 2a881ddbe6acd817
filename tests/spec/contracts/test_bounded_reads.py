"""Nothing is read beyond its limit and nothing is truncated (POD-16); shipped files are found.

Contract: POD-05.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dpone_core import resources
from dpone_core.contracts.step_receipt import MAX_RECEIPT_BYTES, parse_receipt
from dpone_core.resources import (
    DocumentTooLargeError,
    dag_factories_directory,
    read_bounded,
    read_file_bounded,
    schemas_directory,
)
from tests.spec.contracts.documents import receipt


class OneByteAtATime(io.BytesIO):
    """A stream that answers every read with at most one byte, as a socket may."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(1, size) if size and size > 0 else size)


@pytest.mark.parametrize("stream", [io.BytesIO, OneByteAtATime])
@pytest.mark.parametrize("size", [0, 1, 9, 10])
def test_a_document_within_the_limit_is_read_whole(stream: type[io.BytesIO], size: int) -> None:
    assert read_bounded(stream(b"x" * size), 10) == b"x" * size


@pytest.mark.parametrize("stream", [io.BytesIO, OneByteAtATime])
@pytest.mark.parametrize("size", [11, 1_000_000])
def test_one_byte_more_is_refused_after_reading_one_byte_more(stream: type[io.BytesIO], size: int) -> None:
    source = stream(b"x" * size)
    with pytest.raises(DocumentTooLargeError) as caught:
        read_bounded(source, 10)
    assert (caught.value.limit_bytes, source.tell()) == (10, 11)


class InChunks(io.BytesIO):
    """A stream that ends a read at each of its cuts, as a socket does at the end of a frame."""

    def __init__(self, content: bytes, cuts: tuple[int, ...]) -> None:
        super().__init__(content)
        self._cuts = cuts

    def read(self, size: int | None = -1, /) -> bytes:
        cut = next((cut for cut in self._cuts if cut > self.tell()), None)
        wanted = size if size is not None and size >= 0 else len(self.getvalue())
        return super().read(wanted if cut is None else min(wanted, cut - self.tell()))


def test_a_receipt_that_comes_in_three_pieces_is_read_whole() -> None:
    """POD-05: a piece may end in the middle of a character, so the pieces are joined before anything is decoded."""
    held = receipt()
    document = json.dumps({**held.wire(), "process": "flüge"}, ensure_ascii=False).encode()
    letter = document.index("ü".encode())
    cuts = (letter + 1, 2 * len(document) // 3)
    with pytest.raises(UnicodeDecodeError):
        document[: letter + 1].decode()
    whole = read_bounded(InChunks(document, cuts), MAX_RECEIPT_BYTES)
    assert whole == document and json.loads(whole)["process"] == "flüge"
    encoded = held.encode()
    for first in range(1, len(encoded) - 1, 97):
        assert parse_receipt(read_bounded(InChunks(encoded, (first, first + 1)), MAX_RECEIPT_BYTES)) == held


def test_a_file_is_read_within_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "document"
    file.write_bytes(b"12345")
    assert read_file_bounded(file, 5) == b"12345"
    with pytest.raises(DocumentTooLargeError):
        read_file_bounded(file, 4)


def test_the_dag_files_are_found_in_a_checkout() -> None:
    assert {"one_run_spec.py", "many_run_specs.py"} <= {file.name for file in dag_factories_directory().iterdir()}


def test_the_schemas_are_found_in_a_checkout() -> None:
    assert schemas_directory().is_dir()


def test_in_a_wheel_the_shipped_files_lie_below_the_package(tmp_path: Path) -> None:
    package = tmp_path / "dpone_core"
    for name in ("schemas", "dag_factories"):
        (package / "_bundled" / name).mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "resources.py").write_text(Path(resources.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    program = "from dpone_core.resources import *; print(schemas_directory()); print(dag_factories_directory())"
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    assert found == [str(package / "_bundled" / name) for name in ("schemas", "dag_factories")]
