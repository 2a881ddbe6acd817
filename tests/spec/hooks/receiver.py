"""A webhook receiver on the loopback: a real HTTP server in a thread that keeps what it was sent."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class Receiver:
    """`status`, `location`, `delay_seconds` and `drips` (`head` or `body`) say how it answers; `received` is what came,
    in order."""

    status: int = 204
    location: str | None = None
    delay_seconds: float = 0.0
    drips: str = ""
    port: int = 0
    received: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)

    def url(self, path: str = "/hooks/CANARY-very-secret-path", userinfo: str = "") -> str:
        return f"http://{userinfo}127.0.0.1:{self.port}{path}"


@contextmanager
def receiving(receiver: Receiver) -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            document = json.loads(body) if body else None
            receiver.received.append((self.command, self.path, dict(self.headers), document))
            time.sleep(receiver.delay_seconds)
            if receiver.drips:
                self._drip()
                return
            self.send_response(receiver.status)
            if receiver.location is not None:
                self.send_header("Location", receiver.location)
            self.end_headers()

        def _drip(self) -> None:
            """A head, or a head and a body, a byte at a time and without end."""
            self.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"\r\n" if receiver.drips == "body" else b"X-Slow: "))
            with suppress(OSError):
                for _ in range(600):
                    self.wfile.write(b"a")
                    time.sleep(0.1)

        do_POST = do_GET = _answer

        def log_message(self, format: str, *args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
