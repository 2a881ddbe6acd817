"""One HTTP request with one deadline: for the name, the connection, TLS, sending and the answer's head together.

A timeout of a socket begins again with every byte, so a receiver that answers a byte at a time would hold a load for
ever.
"""

from __future__ import annotations

import http.client
import socket
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPMessage
from typing import IO, Any


@dataclass(slots=True)
class Exchange:
    """One request, sent once, in a thread of its own; the caller waits for it until the deadline, or a signal."""

    timeout_seconds: float
    _connections: list[http.client.HTTPConnection] = field(default_factory=list)
    _answer: list[int | BaseException] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def status_of(self, request: urllib.request.Request) -> int:
        """The status of the answer, whose body is not read; no redirect is followed.

        Raises TimeoutError at the deadline, OSError and HTTPException as `http.client` does.
        """
        thread = threading.Thread(target=self._run, args=(request,), name="dpone-http", daemon=True)
        thread.start()
        try:
            if not self._ended.wait(self.timeout_seconds):
                raise TimeoutError("the deadline of the exchange has passed")
        finally:
            self._break_off()
        (answer,) = self._answer
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _run(self, request: urllib.request.Request) -> None:
        opener = urllib.request.build_opener(_NoRedirects(), _Http(self._connections), _Https(self._connections))
        try:
            with opener.open(request, timeout=self.timeout_seconds) as answer:
                self._answer.append(int(answer.status))
        except urllib.error.HTTPError as error:
            self._answer.append(error.code)
            error.close()
        except BaseException as error:  # noqa: BLE001 - carried to the calling thread, raised there
            self._answer.append(error)
        finally:
            self._ended.set()

    def _break_off(self) -> None:
        """Ends a thread that still waits for the receiver."""
        for connection in list(self._connections):
            found = connection.sock
            if found is not None:
                with suppress(OSError):
                    found.shutdown(socket.SHUT_RDWR)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


class _Http(urllib.request.HTTPHandler):
    def __init__(self, made: list[http.client.HTTPConnection]) -> None:
        super().__init__()
        self._made = made

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_noting(http.client.HTTPConnection, self._made), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, made: list[http.client.HTTPConnection]) -> None:
        super().__init__()
        self._made = made

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_noting(http.client.HTTPSConnection, self._made), req)


def _noting(kind: type[http.client.HTTPConnection], made: list[http.client.HTTPConnection]) -> Any:
    """A constructor of connections that can be broken off from outside."""

    def connect(*arguments: Any, **named: Any) -> http.client.HTTPConnection:
        connection = kind(*arguments, **named)
        made.append(connection)
        return connection

    return connect
