"""What the child processes of the reader tests do: read rows, or die in every way a driver can."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from dpone_core.errors import ConnectorError

SCHEMA = pa.schema([("id", pa.int64())])
BATCH_ROWS = 1_000


class Numbers:
    """`batches` batches of 1,000 ids; `then` happens after the last one."""

    schema = SCHEMA

    def __init__(self, batches: int, then: str = "") -> None:
        self._batches = batches
        self._then = then

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for number in range(self._batches):
            ids = pa.array(range(number * BATCH_ROWS, (number + 1) * BATCH_ROWS), pa.int64())
            yield pa.RecordBatch.from_arrays([ids], schema=SCHEMA)
        happen(self._then)


def numbers(batches: int, then: str = "") -> Numbers:
    return Numbers(batches, then)


def at_once(what: str) -> Numbers:
    happen(what)
    return Numbers(0)


def recording(path: str, batches: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Writes how far it came into a file, and what it could see of the secret."""
    seen = "s3cret" in " ".join(sys.argv) or any("s3cret" in value for value in os.environ.values())
    big = pa.array(range(rows), pa.int64())
    batch = pa.RecordBatch.from_arrays([big], schema=SCHEMA)

    def rows_of() -> Iterator[pa.RecordBatch]:
        for number in range(batches):
            Path(path).write_text(f"{number} {seen} {' '.join(sorted(sys.modules))}")
            yield batch

    return pa.RecordBatchReader.from_batches(SCHEMA, rows_of())


class FakePanic(BaseException):
    """As a Rust panic arrives in Python: outside of Exception."""


def happen(what: str) -> None:
    match what:
        case "":
            return
        case "segfault":
            ctypes.string_at(0)
        case "abort":
            os.abort()
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "panic":
            raise FakePanic("canary panic text")
        case "exception":
            raise RuntimeError("canary driver text")
        case "ours":
            raise ConnectorError("a sentence of ours", code="source_unreachable", fix="a way out")
        case "exit":
            os._exit(3)
        case "success":
            os._exit(0)
        case "noise":
            print("canary on standard output", flush=True)
            print("canary on standard error", file=sys.stderr, flush=True)
        case "hang":
            time.sleep(600)
