"""Serves one directory of evidence to a browser of this machine: loopback, GET only, no listing, nothing outside.

For laptops: it asks for no password, like the Airflow beside it. A page of another site cannot read it through a name
that resolves to this machine, for it answers to its own loopback names only.
"""

from __future__ import annotations

import threading
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

_LOOPBACK = "127.0.0.1"
_KINDS = {".html": "text/html; charset=utf-8", ".json": "application/json", ".md": "text/plain; charset=utf-8"}


class EvidenceServer:
    """`with EvidenceServer(directory) as server:` serves until the block ends. The directory may appear later."""

    def __init__(self, directory: Path, port: int = 0) -> None:
        root = directory.resolve()

        class Handler(_EvidenceHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(root))

        self._server = ThreadingHTTPServer((_LOOPBACK, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="evidence-server", daemon=True)

    def __enter__(self) -> EvidenceServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{_LOOPBACK}:{self.port}"


class _EvidenceHandler(SimpleHTTPRequestHandler):
    """Regular files below the directory, links resolved, of the kinds that evidence has."""

    server_version = "dpone-evidence"
    sys_version = ""

    def send_head(self) -> Any:
        path = Path(self.translate_path(self.path)).resolve()
        inside = path.is_relative_to(Path(self.directory))
        port = self.connection.getsockname()[1]
        own_names = {f"{_LOOPBACK}:{port}", f"localhost:{port}"}
        if self.headers.get("Host") not in own_names or not inside or path.suffix not in _KINDS or not path.is_file():
            self.send_error(HTTPStatus.NOT_FOUND, "There is no such evidence")
            return None
        return super().send_head()

    def guess_type(self, path: Any) -> str:
        return _KINDS.get(Path(path).suffix, "text/plain")

    def end_headers(self) -> None:
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Quiet: what is served here is read by the person who started it."""
