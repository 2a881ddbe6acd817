"""Reads a source in a child process, so that a driver that aborts or hangs cannot end the run itself.

The child gets its request, secrets included, on standard input and answers with an Arrow IPC stream whose trailer
states how many rows it sent. A stream without a matching trailer is an error. The pipe between the processes bounds
memory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from dpone_core.connectors._sql.schema_rules import foreign_error
from dpone_core.errors import ConnectorError, ETLExecutionError

from . import child_main

DIED: Final = "source_reader_died"
_SECRET_PREFIXES: Final = ("DPONE_CONN_", "AIRFLOW_CONN_")
_WAIT_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRequest:
    """`function` of `module` is called in the child with `arguments` (JSON values) and returns a RecordBatchReader,
    or anything with `schema` that iterates over record batches. `engine` names the source in messages."""

    module: str
    function: str
    arguments: Mapping[str, object] = field(repr=False)
    engine: str


class ReaderFailure(Exception):
    """The driver's error text from the child process; used as a `__cause__` only and never printed."""


class ChildReader:
    """Reads one result, once. Raises ConnectorError `source_reader_died`, naming the signal, when the child ends
    without a trailer; `source_query_refused` for a driver's error before the first batch; `source_unreachable` for a
    later one."""

    def __init__(self, request: ChildRequest) -> None:
        self._request = request
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._closed:
            return
        process = self._process = self._start()
        try:
            yield from self._receive(process)
        finally:
            self._end(process)

    def close(self) -> None:
        """Idempotent, from any thread: the child is killed and a running iteration ends without an error."""
        self._closed = True
        if self._process is not None:
            self._process.kill()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def _start(self) -> subprocess.Popen[bytes]:
        request = {
            "path": sys.path,
            "module": self._request.module,
            "function": self._request.function,
            "arguments": dict(self._request.arguments),
        }
        content = json.dumps(request).encode()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", str(Path(child_main.__file__))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if not name.startswith(_SECRET_PREFIXES)},
                start_new_session=True,
            )
        except OSError as error:
            raise ConnectorError("the reader process of the source could not be started", code=DIED) from error
        if self._closed:
            process.kill()
        assert process.stdin is not None
        try:
            process.stdin.write(len(content).to_bytes(4, "big") + content)
            process.stdin.flush()
        except BrokenPipeError:
            pass
        return process

    def _receive(self, process: subprocess.Popen[bytes]) -> Iterator[pa.RecordBatch]:
        rows = 0
        trailer: Mapping[str, object] | None = None
        try:
            stream = pa.ipc.open_stream(pa.PythonFile(process.stdout, mode="r"))
            while trailer is None:
                batch, metadata = stream.read_next_batch_with_custom_metadata()
                if metadata is not None and child_main.TRAILER in metadata:
                    trailer = json.loads(metadata[child_main.TRAILER])
                else:
                    rows += batch.num_rows
                    yield batch
                if self._closed:
                    return
        except (pa.ArrowException, OSError, StopIteration, ValueError) as error:
            if self._closed:
                return
            raise self._death(process) from error
        self._verify(trailer, rows)

    def _verify(self, trailer: Mapping[str, object], rows: int) -> None:
        if "rows" not in trailer:
            raise self._failure(trailer)
        if trailer["rows"] != rows:
            raise ConnectorError(
                f"the reader process sent {trailer['rows']} rows and {rows} arrived", code="source_unreachable"
            )

    def _failure(self, trailer: Mapping[str, object]) -> ETLExecutionError:
        cause = ReaderFailure(trailer["text"])
        error: ETLExecutionError
        if trailer["code"] is not None:
            fix = None if trailer["fix"] is None else str(trailer["fix"])
            error = ConnectorError(str(trailer["message"]), code=str(trailer["code"]), fix=fix)
        elif trailer["panicked"]:
            error = ConnectorError(f"the {self._request.engine} driver panicked in the reader process", code=DIED)
        elif trailer["started"]:
            error = foreign_error(cause, "the source stopped while it was read", "source_unreachable")
        else:
            sentence = f"{self._request.engine} refused the query of the source"
            error = foreign_error(cause, sentence, "source_query_refused")
        error.__cause__ = cause
        return error

    def _death(self, process: subprocess.Popen[bytes]) -> ConnectorError:
        try:
            status = process.wait(_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            return ConnectorError("the reader process of the source broke its stream off", code=DIED)
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return ConnectorError(f"the reader process of the source died: {how}", code=DIED)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass
