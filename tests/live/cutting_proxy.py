"""A TCP proxy that cuts a connection when the server has done what was asked, and before it says so.

`cut_after(text)` arms it: the next client message that holds `text` is passed on, the server's answer is awaited and
thrown away, and the connection is closed on both sides. With `refuse_after_cut` every connection is closed then, and
new ones are kept out until `heal`. `cut_now` closes every connection at once, whatever is on its way.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_CHUNK: Final = 65_536
_ANSWER_SECONDS: Final = 10.0


class CuttingProxy:
    """`port` is where clients connect on 127.0.0.1; `cuts` counts the connections that were cut."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.cuts = 0
        self._armed: bytes | None = None
        self._once_seen: bytes | None = None
        self._before = False
        self._refuse_after_cut = False
        self._refusing = False
        self._mutex = threading.Lock()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(
        self, text: bytes, *, once_seen: bytes | None = None, before: bool = False, refuse_after_cut: bool = False
    ) -> None:
        """Not before a message that holds `once_seen` has gone through; `before` cuts instead of passing `text` on."""
        with self._mutex:
            self._armed, self._once_seen, self._before = text, once_seen, before
            self._refuse_after_cut, self._refusing = refuse_after_cut, False

    def cut_now(self, *, refuse: bool = False) -> None:
        """`refuse` keeps new connections out until `heal`."""
        with self._mutex:
            self._refusing = refuse
            ends, self._open = self._open, []
            self.cuts += 1
        for end in ends:
            _close(end)

    def heal(self) -> None:
        with self._mutex:
            self._armed, self._refusing = None, False

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            server = socket.create_connection(self._upstream)
            with self._mutex:
                self._open += [client, server]
            answered = threading.Event()
            silent = threading.Event()
            threading.Thread(target=self._forward, args=(client, server, answered, silent), daemon=True).start()
            threading.Thread(target=self._back, args=(server, client, answered, silent), daemon=True).start()

    def _forward(
        self, client: socket.socket, server: socket.socket, answered: threading.Event, silent: threading.Event
    ) -> None:
        """Client to server. A client that waits for an answer sends nothing meanwhile, so a chunk is a message."""
        with suppress(OSError):
            while chunk := client.recv(_CHUNK):
                if not self._is_the_one(chunk):
                    server.sendall(chunk)
                    continue
                if not self._before:
                    silent.set()
                    answered.clear()
                    server.sendall(chunk)
                    answered.wait(_ANSWER_SECONDS)
                break
        ends = [client, server]
        with self._mutex:
            if self._refusing:  # those that are open now: one that is let in after `heal` stays
                ends, self._open = self._open, []
        for end in ends:
            _close(end)

    def _back(
        self, server: socket.socket, client: socket.socket, answered: threading.Event, silent: threading.Event
    ) -> None:
        with suppress(OSError):
            while chunk := server.recv(_CHUNK):
                if silent.is_set():
                    answered.set()
                    continue
                client.sendall(chunk)
        for end in (server, client):
            _close(end)

    def _is_the_one(self, chunk: bytes) -> bool:
        with self._mutex:
            if self._once_seen is not None:
                self._once_seen = None if self._once_seen in chunk else self._once_seen
                return False
            if self._armed is None or self._armed not in chunk:
                return False
            self._armed = None
            self._refusing = self._refuse_after_cut
            self.cuts += 1
            return True


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextmanager
def cutting_proxy(host: str, port: int) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(host, port)
    try:
        yield proxy
    finally:
        proxy.close()
