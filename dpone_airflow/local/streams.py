"""Logs and exec: the two pod subresources that stream.

Exec speaks the remote command protocol over websockets, `v5.channel.k8s.io` and `v4.channel.k8s.io`: the first byte
of a frame is its channel, the command's end is a Status on the error channel followed by a close.
"""

from __future__ import annotations

import json
from enum import IntEnum
from http import HTTPStatus

from aiohttp import WSMsgType, web

from dpone_airflow.local.api import POD_PATH, number_in_query, requested_pod
from dpone_airflow.local.cluster import Cluster
from dpone_airflow.local.containers import AnyContainer, ExecResult, XComSidecar
from dpone_airflow.local.faults import ExecFault
from dpone_airflow.local.logs import LogQuery
from dpone_airflow.local.pods import Pod
from dpone_airflow.local.status import Running, Waiting
from dpone_airflow.local.wire import JsonObject, bad_request, is_true

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_FRAME_BYTES = 32 << 10
_HALF_A_DOCUMENT = b'{"half": '
_SIDECAR_KILL = b"kill -2"


class _Channel(IntEnum):
    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3


class StreamApi:
    """Handlers of `pods/{name}/log` and `pods/{name}/exec`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get(POD_PATH + "/log", self._log)
        router.add_get(POD_PATH + "/exec", self._exec)
        router.add_post(POD_PATH + "/exec", self._exec)

    async def _log(self, request: web.Request) -> web.StreamResponse:
        pod = requested_pod(self._cluster, request)
        container = _requested_container(pod, request)
        if isinstance(container.state, Waiting):
            reason = container.state.reason
            raise bad_request(f'container "{container.name}" in pod "{pod.name}" is waiting to start: {reason}')
        tail_lines = number_in_query(request, "tailLines")
        query = LogQuery(
            follow=is_true(request.query.get("follow")),
            tail_lines=None if tail_lines is None else int(tail_lines),
            since_seconds=number_in_query(request, "sinceSeconds"),
        )
        timestamps = is_true(request.query.get("timestamps"))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        lines_left = pod.faults.log_drop_after_lines if query.follow else None
        async for batch in container.logs.read(query):
            await response.write(b"".join(line.render(timestamps=timestamps) for line in batch[:lines_left]))
            if lines_left is not None:
                lines_left -= len(batch)
                if lines_left <= 0 and request.transport is not None:
                    request.transport.close()
                    return response
        await response.write_eof()
        return response

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        pod = requested_pod(self._cluster, request)
        container = _requested_container(pod, request)
        command = tuple(request.query.getall("command", []))
        with_stdin = is_true(request.query.get("stdin"))
        if not isinstance(container.state, Running):
            raise bad_request(f'container "{container.name}" in pod "{pod.name}" is not running')
        if with_stdin and not isinstance(container, XComSidecar):
            raise bad_request("stdin is modelled for the XCom sidecar only")
        if not command:
            raise bad_request("you must specify at least 1 command for the container")
        return await self._run_exec(request, pod, container, command, with_stdin)

    async def _run_exec(
        self, request: web.Request, pod: Pod, container: AnyContainer, command: tuple[str, ...], with_stdin: bool
    ) -> web.WebSocketResponse:
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        if not any(protocol in offered for protocol in _PROTOCOLS):
            raise bad_request(f"exec needs a websocket that speaks one of {', '.join(_PROTOCOLS)}")
        socket = web.WebSocketResponse(protocols=_PROTOCOLS, max_msg_size=0)
        await socket.prepare(request)
        if pod.faults.exec is ExecFault.HANG:
            async for _ in socket:
                continue
            return socket
        if pod.faults.exec is ExecFault.GARBAGE:
            await _send_result(socket, ExecResult(exit_code=0, output=_HALF_A_DOCUMENT, errors=b""))
        elif with_stdin and isinstance(container, XComSidecar):
            if await _reads_stop_command(socket):
                container.interrupt()
            await _send_result(socket, ExecResult(exit_code=0, output=b"", errors=b""))
        else:
            await _send_result(socket, await container.exec(command))
        return socket


def _requested_container(pod: Pod, request: web.Request) -> AnyContainer:
    names = pod.container_names()
    name = request.query.get("container") or (names[0] if len(names) == 1 else None)
    if name is None:
        raise bad_request(f"a container name must be specified for pod {pod.name}, choose one of: {names}")
    container = pod.container(name)
    if container is None:
        raise bad_request(f"container {name} is not valid for pod {pod.name}")
    return container


async def _reads_stop_command(socket: web.WebSocketResponse) -> bool:
    """Reads stdin until it holds Airflow's kill command; the command itself is never run.

    Clients send text frames too.
    """
    received = b""
    async for message in socket:
        if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
            continue
        frame = message.data if isinstance(message.data, bytes) else str(message.data).encode()
        if frame[:1] == bytes([_Channel.STDIN]):
            received += frame[1:]
        if _SIDECAR_KILL in received:
            return True
    return False


async def _send_result(socket: web.WebSocketResponse, result: ExecResult) -> None:
    for channel, content in (
        (_Channel.STDOUT, result.output),
        (_Channel.STDERR, result.errors),
        (_Channel.ERROR, json.dumps(_exit_status(result.exit_code)).encode()),
    ):
        for start in range(0, len(content), _FRAME_BYTES):
            await socket.send_bytes(bytes([channel]) + content[start : start + _FRAME_BYTES])
    await socket.close()


def _exit_status(exit_code: int) -> JsonObject:
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
        "code": HTTPStatus.INTERNAL_SERVER_ERROR.value,
    }
