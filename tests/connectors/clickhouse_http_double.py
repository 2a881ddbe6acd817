"""A ClickHouse HTTP endpoint over the embedded engine: the real engine behind the real protocol, and faults on demand.

Run as `python clickhouse_http_double.py DIRECTORY`; the first line of output is the port. `POST /_faults` takes a JSON
list of `{"match": regex, "stage": stage, "code": int | null, "times": int, "skip": int}`. After `skip` others a
matching statement meets its stage. "before", "after": it is refused with `code`, or the connection is dropped, before
or after it was executed. "cut", "text": its Arrow answer ends at the border of a batch, or goes on as an error text,
with the transport itself unharmed. "half": the connection is dropped in the middle of the answer. "never": it is not
executed and not answered, for as long as the endpoint lives. "held": it is executed when the next faults are planned,
however long that takes; `/_held` counts such statements. The answer of `/_faults` says how often each fault planned
before could still have struck.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import tempfile
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import chdb
import lz4.frame

_TRANSPORT = frozenset(
    {"query", "database", "query_id", "session_id", "enable_http_compression", "client_protocol_version", "compress"}
    | {"wait_end_of_query", "send_progress_in_http_headers", "http_headers_progress_interval_ms", "default_format"}
)
_FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
_INSERT = re.compile(r"^\s*INSERT\s+INTO\b.*\bFORMAT\s+(\w+)\s*$", re.IGNORECASE | re.DOTALL)
END_MARK = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_CODE = re.compile(r"Code: (\d+)")


class EngineError(Exception):
    """What a server would answer with an exception code."""


class HalfAnswer(Exception):
    """The connection is dropped when half of this answer is sent."""

    def __init__(self, content: bytes) -> None:
        self.content = content


class DroppedConnection(Exception):
    """The client will never hear of it."""


@dataclass(slots=True)
class Fault:
    match: str
    stage: str
    code: int | None = None
    times: int = 1
    skip: int = 0


class Endpoint(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, directory: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.directory = directory
        self.engine = chdb.connect(directory)
        self.readers: dict[tuple[tuple[str, str], ...], Any] = {}
        self.applied: dict[str, str] = {}
        self.one_at_a_time = threading.Lock()
        self.faults: list[Fault] = []
        self.replanned = threading.Event()
        self.held = 0

    def apply(self, settings: dict[str, str]) -> None:
        """Makes the engine's settings those of this request; unchanged ones cost nothing."""
        for name in self.applied.keys() - settings.keys():
            self.engine.query(f"SET {name} = DEFAULT", "Null")
        for name, value in settings.items() - self.applied.items():
            self.engine.query(f"SET {name} = '{value}'", "Null")
        self.applied = settings

    def spoiled(self, sql: str, answer: bytes) -> bytes:
        """An Arrow answer without its end mark, as a server that fails in the middle leaves it."""
        for fault in self.faults:
            if fault.stage in ("cut", "text", "half") and fault.times > 0 and re.search(fault.match, sql):
                fault.times -= 1
                if fault.stage == "half":
                    raise HalfAnswer(answer)
                text = b"\r\n__exception__\r\nCode: 241. DB::Exception: injected" if fault.stage == "text" else b""
                return answer[: -len(END_MARK)] + text
        return answer

    def strike(self, sql: str, stage: str) -> None:
        for fault in self.faults:
            if fault.stage == stage and fault.times > 0 and re.search(fault.match, sql):
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                self.held += stage == "held"
                if stage in ("never", "held"):
                    (threading.Event() if stage == "never" else self.replanned).wait()
                    return
                if fault.code is None:
                    raise DroppedConnection
                raise EngineError(f"Code: {fault.code}. DB::Exception: injected. (INJECTED)")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    server: Endpoint

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        body = self._body()
        if parts.path == "/_held":
            self._reply(200, str(self.server.held).encode())
            return
        if parts.path == "/_faults":
            left = [fault.times for fault in self.server.faults]
            self.server.faults = [Fault(**fault) for fault in json.loads(body)]
            self.server.replanned.set()
            self.server.replanned = threading.Event()
            self._reply(200, json.dumps(left).encode())
            return
        try:
            self._reply(200, self._answer(parameters, body))
        except HalfAnswer as half:
            self._reply(200, half.content, sent=len(half.content) // 2)
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        except DroppedConnection:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        except Exception as error:
            text = str(error)
            code = _CODE.search(text)
            self._reply(500, text[max(0, text.find("Code: ")) :].encode(), code=code.group(1) if code else "1002")

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            chunks = []
            while size := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            raw = b"".join(chunks)
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return lz4.frame.decompress(raw) if self.headers.get("Content-Encoding") == "lz4" else raw

    def _answer(self, parameters: dict[str, str], body: bytes) -> bytes:
        query = parameters.get("query", "")
        insert = _INSERT.match(query)
        sql = query if insert else "\n".join(part for part in (query, body.decode()) if part)
        settings = {k: v for k, v in parameters.items() if k not in _TRANSPORT and not k.startswith("param_")}
        read_only = settings.pop("readonly", "0")
        bound = {k.removeprefix("param_"): v for k, v in parameters.items() if k.startswith("param_")}
        self.server.strike(sql, "never")
        self.server.strike(sql, "held")
        with self.server.one_at_a_time:
            self.server.strike(sql, "before")
            if read_only != "0":
                answer = self._read(sql, {**settings, "readonly": read_only}, bound)
            else:
                self.server.apply(settings)
                answer = self._insert(sql, insert.group(1), body) if insert else _query(self.server.engine, sql, bound)
            self.server.strike(sql, "after")
        return self.server.spoiled(sql, answer or b"")

    def _read(self, sql: str, settings: dict[str, str], bound: dict[str, str]) -> bytes:
        """In a session for these settings, because the engine lets no session leave read-only mode."""
        key = tuple(settings.items())
        session = self.server.readers.get(key)
        if session is None:
            session = self.server.readers[key] = chdb.connect(self.server.directory)
            for name, value in key:
                session.query(f"SET {name} = '{value}'", "Null")
        return _query(session, sql, bound)

    def _insert(self, sql: str, fmt: str, body: bytes) -> bytes:
        descriptor, path = tempfile.mkstemp()
        try:
            os.close(descriptor)
            with open(path, "wb") as file:
                file.write(body)
            statement = _FORMAT.sub("", sql)
            self.server.engine.query(f"{statement} FROM INFILE '{path}' FORMAT {fmt}", "Null")
        finally:
            os.unlink(path)
        return b""

    def _reply(self, status: int, body: bytes, *, code: str | None = None, sent: int | None = None) -> None:
        self.send_response(status)
        self.send_header("X-ClickHouse-Timezone", "UTC")
        if code is not None:
            self.send_header("X-ClickHouse-Exception-Code", code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:sent])


def _query(session: Any, sql: str, bound: dict[str, str]) -> bytes:
    found = _FORMAT.search(sql)
    answer: bytes = session.query(sql, found.group(1) if found else "TabSeparated", params=bound).bytes()
    return answer


if __name__ == "__main__":
    endpoint = Endpoint(sys.argv[1])
    print(endpoint.server_address[1], flush=True)
    endpoint.serve_forever()
