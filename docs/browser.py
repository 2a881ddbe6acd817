"""A headless Chromium driven over its debugging protocol: open a page, wait for a text, click, take a picture."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
    *("--remote-debugging-port=0", "--remote-allow-origins=*", "--window-size=1280,800"),
)
_WAIT_SECONDS = 60.0


class Browser:
    """One page. Every wait ends with a TimeoutError that names what did not appear."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)

    async def show(self, url: str, *, width: int, height: int, dark: bool = False, zoom: float = 1.0) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": zoom, "mobile": False}
        await self._send("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self._send("Emulation.setEmulatedMedia", {"features": [scheme]})
        await self._send("Page.navigate", {"url": url})

    async def wait_for(self, text: str) -> None:
        """Until the page shows the text."""
        condition = f"document.readyState === 'complete' && document.body.innerText.includes({json.dumps(text)})"
        await self._until(condition, f"text {text!r}")

    async def wait_until(self, condition: str) -> None:
        await self._until(condition, condition)

    async def run(self, script: str) -> Any:
        answer = await self._send("Runtime.evaluate", {"expression": script, "returnByValue": True})
        return answer["result"].get("value")

    async def click(self, condition: str) -> None:
        """The first button, tab or link for which the JavaScript condition over `e` holds."""
        find = f"[...document.querySelectorAll('button, a, [role=tab], summary')].find(e => {condition})"
        await self._until(f"!!({find})", f"something to click where {condition}")
        await self.run(f"({find}).click()")

    async def picture(self, file: Path, *, width: int, height: int) -> None:
        """Writes a PNG of the upper left part of the page."""
        await asyncio.sleep(1.0)  # animations of the page
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        wanted = {"format": "png", "clip": clip, "captureBeyondViewport": True}
        answer = await self._send("Page.captureScreenshot", wanted)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(answer["data"]))

    async def _until(self, condition: str, name: str) -> None:
        limit = asyncio.get_running_loop().time() + _WAIT_SECONDS
        while asyncio.get_running_loop().time() < limit:
            if await self.run(condition):
                return
            await asyncio.sleep(0.25)
        raise TimeoutError(f"the page never showed: {name}")

    async def _send(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async for message in self._socket:
            if message.type is not WSMsgType.TEXT:
                break
            answer = message.json()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
        raise RuntimeError(f"the browser ended during {method}")


@asynccontextmanager
async def browser(chromium: str | None = None) -> AsyncIterator[Browser]:
    """A browser with a profile of its own; nothing of it is left afterwards."""
    path = chromium or shutil.which("chromium")
    if path is None:
        raise FileNotFoundError("there is no chromium on this machine")
    with tempfile.TemporaryDirectory(prefix="dpone-browser-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            path,
            *_FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port = await _port(Path(profile) / "DevToolsActivePort")
            async with ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json") as response:
                    pages = [page for page in await response.json() if page["type"] == "page"]
                async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    yield Browser(socket)
        finally:
            process.terminate()
            await process.wait()


async def _port(file: Path) -> int:
    for _ in range(int(_WAIT_SECONDS / 0.1)):
        if file.is_file() and (lines := file.read_text().splitlines()):
            return int(lines[0])
        await asyncio.sleep(0.1)
    raise TimeoutError("the browser did not start")
