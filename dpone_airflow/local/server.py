"""The HTTP server of a runner: loopback only, every request bears the token, every error is a `Status` document."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from dpone_airflow.local.api import ResourceApi
from dpone_airflow.local.cluster import Cluster
from dpone_airflow.local.control import CONTROL_PREFIX, ControlApi, RequestLog
from dpone_airflow.local.faults import RequestFaults
from dpone_airflow.local.kubeconfig import LOOPBACK, write_kubeconfig
from dpone_airflow.local.pods import Node
from dpone_airflow.local.sandbox import Sandbox
from dpone_airflow.local.settings import Settings
from dpone_airflow.local.streams import StreamApi
from dpone_airflow.local.volumes import remove_home
from dpone_airflow.local.wire import ApiError

_CLIENT_CLOSED_REQUEST = 499
_BODY_LIMIT_BYTES = 16 << 20
_SHUTDOWN_TIMEOUT_SECONDS = 1.0
_REASONS = {404: "NotFound", 405: "MethodNotAllowed", 413: "RequestEntityTooLarge"}
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that accepts requests. Its members belong to the event loop it runs in."""

    port: int
    kubeconfig_path: Path
    sandbox: Sandbox
    cluster: Cluster
    faults: RequestFaults
    control: ControlApi


@contextlib.asynccontextmanager
async def serve(settings: Settings, sandbox: Sandbox) -> AsyncIterator[Server]:
    """Serves until the block ends; then every pod is killed and its files are deleted."""
    settings.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    pods_directory = Path(tempfile.mkdtemp(prefix="pods-", dir=settings.root))
    node = Node(
        settings=settings,
        sandbox=sandbox,
        pods_directory=pods_directory,
        slot=asyncio.Lock() if settings.serial else None,
    )
    cluster, faults, requests = Cluster(node), RequestFaults(), RequestLog()
    control = ControlApi(cluster, faults, requests, sandbox.isolation)
    application = web.Application(
        middlewares=[_render_errors(requests), _check_requests(settings.token, faults)],
        client_max_size=_BODY_LIMIT_BYTES,
    )
    for api in (ResourceApi(cluster), StreamApi(cluster), control):
        api.add_routes(application.router)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_TIMEOUT_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, LOOPBACK, settings.port)
        await site.start()
        port = int(runner.addresses[0][1])
        kubeconfig = settings.kubeconfig or settings.root / "kubeconfig"
        write_kubeconfig(kubeconfig, port=port, token=settings.token)
        yield Server(
            port=port, kubeconfig_path=kubeconfig, sandbox=sandbox, cluster=cluster, faults=faults, control=control
        )
    finally:
        await cluster.shut_down()
        await runner.cleanup()
        remove_home(pods_directory)


def _check_requests(token: str, faults: RequestFaults) -> Middleware:
    expected = f"Bearer {token}".encode()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        if not hmac.compare_digest(given, expected):
            raise ApiError(401, "Unauthorized", "Unauthorized")
        if not request.path.startswith(CONTROL_PREFIX):
            faults.check(request.method, request.path)
        return await handler(request)

    return check


def _render_errors(requests: RequestLog) -> Middleware:
    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        entry = requests.begin(request)
        try:
            response = await handler(request)
        except ApiError as error:
            response = _status_response(error)
        except web.HTTPException as error:
            response = _status_response(ApiError(error.status, _REASONS.get(error.status, "BadRequest"), error.reason))
        except ConnectionError:  # the client went away in the middle of a stream, nobody reads this answer
            response = web.Response(status=_CLIENT_CLOSED_REQUEST)
        except Exception:
            _logger.exception("%s %s failed", request.method, request.path)
            response = _status_response(ApiError(500, "InternalError", "the local pod runner failed; see its log"))
        entry["status"] = response.status
        return response

    return answer


def _status_response(error: ApiError) -> web.Response:
    return web.json_response(error.status_document(), status=error.code)
