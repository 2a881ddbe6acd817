"""Runners for the tests: fresh per test, and one per kind of isolation where the contract holds for both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dpone_airflow.local.runner import LocalPodRunner
from dpone_airflow.local.sandbox import IsolationUnavailableError, detect_sandbox
from dpone_airflow.local.settings import Isolation
from tests.airflow.local_runner.kube import Kube


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Kube]]:
    """Starts a runner with the given settings; it stops with the test."""
    with ExitStack() as stack:

        def start(**settings: Any) -> Kube:
            kube = Kube(stack.enter_context(LocalPodRunner(root=tmp_path / "runner", **settings)))
            stack.callback(kube.close)
            return kube

        yield start


@pytest.fixture
def kube(start: Callable[..., Kube]) -> Kube:
    return start()


@pytest.fixture(params=[Isolation.MOUNT, Isolation.REWRITE])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    """Both kinds; mount only where this machine allows it."""
    return available(request.param)


@pytest.fixture
def mount() -> Isolation:
    return available(Isolation.MOUNT)


def available(isolation: Isolation) -> Isolation:
    try:
        detect_sandbox(isolation)
    except IsolationUnavailableError as error:
        pytest.skip(str(error))
    return isolation
