"""The script that a reader's child process runs. It is started by path, so it imports only the module that the request
names.

Standard input carries one request (4 bytes of length, then JSON) and stays open. When the parent ends, standard input
closes and the kernel kills this process, whatever the driver is doing. Standard output carries one Arrow IPC stream.
Its last batch is empty, and its metadata is the trailer: the number of rows sent, or the error.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    import pyarrow as pa

TRAILER: Final = b"dpone_trailer"
_F_SETSIG: Final = 10
_MAX_TEXT: Final = 2_000


def main() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))  # the parent waits for them itself
    request = _read_request()
    _die_with_the_parent()
    output = _open_output()
    sys.path[:] = request["path"]
    _send(request, output)
    output.flush()
    os._exit(0)


def _read_request() -> dict[str, Any]:
    size = int.from_bytes(_read_exactly(4), "big")
    request: dict[str, Any] = json.loads(_read_exactly(size))
    return request


def _read_exactly(size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = os.read(0, size - len(received))
        if not piece:
            os._exit(1)
        received += piece
    return received


def _die_with_the_parent() -> None:
    """Asks the kernel for SIGKILL when the other end of standard input closes. No thread does this, because a driver
    could block it."""
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:
        os._exit(1)


def _open_output() -> BinaryIO:
    """Standard output under another file number; whatever a library prints to the usual one is discarded."""
    private = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(private, "wb")


def _send(request: dict[str, Any], output: BinaryIO) -> None:
    import pyarrow as pa

    writer: pa.RecordBatchStreamWriter | None = None
    schema = pa.schema([])
    trailer: dict[str, Any] = {}
    rows = 0
    try:
        reader = getattr(importlib.import_module(request["module"]), request["function"])(**request["arguments"])
        schema = reader.schema
        writer = pa.ipc.new_stream(output, schema)
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
        trailer["rows"] = rows
    except BrokenPipeError:
        os._exit(1)
    except BaseException as error:  # noqa: BLE001 - a driver's panic is no Exception; the parent must know of it
        trailer = _failure(error, started=writer is not None)
    if writer is None:
        writer = pa.ipc.new_stream(output, schema)
    nothing = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    writer.write_batch(nothing, custom_metadata={TRAILER: json.dumps(trailer).encode()})
    writer.close()


def _failure(error: BaseException, *, started: bool) -> dict[str, Any]:
    """The trailer of an error. An error of dpone is sent with code, message and fix; of any other only the text, for
    the parent's `__cause__`."""
    ours = getattr(error, "code", None) if hasattr(error, "fix") and hasattr(error, "message") else None
    return {
        "code": ours,
        "message": getattr(error, "message", "") if ours else "",
        "fix": getattr(error, "fix", None) if ours else None,
        "panicked": not isinstance(error, Exception),
        "started": started,
        "text": f"{type(error).__name__}: {error}"[:_MAX_TEXT],
    }


if __name__ == "__main__":
    main()
