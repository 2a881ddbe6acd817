"""Logs are what the container wrote, in time, in order, and bounded in memory."""

from __future__ import annotations

import asyncio
import json
import re
import time
import urllib.request
from collections.abc import AsyncIterator, Callable

import pytest
from kubernetes.client import ApiException

from dpone_airflow.local.logs import LINE_LIMIT_BYTES, LogBuffer, LogLine, LogQuery
from tests.airflow.local_runner.kube import NAMESPACE, SIDECAR, Kube, shell, until


def read(buffer: LogBuffer, **query: float) -> list[bytes]:
    async def collect() -> list[bytes]:
        return await texts(buffer.read(LogQuery(**query)))  # type: ignore[arg-type]

    return asyncio.run(collect())


async def texts(batches: AsyncIterator[list[LogLine]]) -> list[bytes]:
    return [line.text async for batch in batches for line in batch]


def buffer(*chunks: bytes, limit_bytes: int = 1 << 20) -> LogBuffer:
    result = LogBuffer(limit_bytes)
    for chunk in chunks:
        result.feed(chunk)
    result.close()
    return result


def test_lines_are_put_together_from_pieces() -> None:
    assert read(buffer(b"o", b"ne\ntw", b"o\n\nthree")) == [b"one", b"two", b"", b"three"]


def test_a_line_that_is_too_long_is_cut() -> None:
    cut = read(buffer(b"x" * LINE_LIMIT_BYTES, b"yy\nz", limit_bytes=1 << 22))

    assert [(len(line), line[-1:]) for line in cut] == [(LINE_LIMIT_BYTES, b"x"), (2, b"y"), (1, b"z")]


def test_only_the_last_part_is_kept_and_the_log_says_so() -> None:
    lines = read(buffer(b"".join(b"line %d\n" % number for number in range(1000)), limit_bytes=100))

    assert (
        lines[0] == b"[local pod runner: 989 earlier lines dropped, the last 9.53674e-05 MiB of a container are kept]"
    )
    assert lines[1:] == [b"line %d" % number for number in range(989, 1000)]


def test_a_tail_within_what_is_kept_mentions_no_loss() -> None:
    lines = read(buffer(b"".join(b"line %d\n" % number for number in range(1000)), limit_bytes=100), tail_lines=2)

    assert lines == [b"line 998", b"line 999"]


def test_a_follower_that_falls_behind_learns_what_it_lost() -> None:
    async def scenario() -> list[bytes]:
        log = LogBuffer(20)
        reader = log.read(LogQuery(follow=True))
        log.feed(b"first\n")
        seen = [line.text for line in await anext(reader)]
        log.feed(b"".join(b"later %d\n" % number for number in range(10)))
        log.close()
        return seen + await texts(reader)

    lines = asyncio.run(scenario())

    assert lines[0] == b"first"
    assert b"8 earlier lines dropped" in lines[1]
    assert lines[2:] == [b"later 8", b"later 9"]


def test_a_follower_that_goes_away_is_no_error(kube: Kube, caplog: pytest.LogCaptureFixture) -> None:
    kube.create(shell("while :; do echo tick; sleep 0.01; done"))
    kube.wait_for_line("tick")
    followed = kube.api.read_namespaced_pod_log("subject", NAMESPACE, follow=True, _preload_content=False)
    assert next(iter(followed)) == b"tick\n"

    followed.close()

    until(lambda: kube.runner.state()["requests"][-1]["status"] == 499)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_removed_pod_keeps_the_end_of_its_log(kube: Kube) -> None:
    kube.run(shell("seq 1 100000"))

    kube.runner.vanish(NAMESPACE, "subject")

    kept = kube.runner.state()["finished"][-1]["logs"]["base"]
    assert kept == [str(number) for number in range(100_001 - len(kept), 100_001)]
    assert 9_000 < len(kept) < 12_000


def test_stdout_and_stderr_are_one_log(kube: Kube) -> None:
    kube.run(shell("echo out; echo err >&2; printf unfinished"))

    assert kube.log() == "out\nerr\nunfinished\n"


def test_timestamps_are_rfc_3339_with_nanoseconds(kube: Kube) -> None:
    kube.run(shell("echo x"))

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z x\n", kube.log(timestamps=True))


def test_tail_and_since_choose_lines(kube: Kube) -> None:
    kube.run(shell("echo 1; echo 2; echo 3"))

    assert kube.log(tail_lines=2) == "2\n3\n"
    assert kube.log(tail_lines=0) == ""
    assert kube.log(since_seconds=600) == "1\n2\n3\n"


def test_old_lines_are_left_out_by_their_age(kube: Kube) -> None:
    kube.run(shell("echo old"))
    until(lambda: time.time() - kube.state().terminated.finished_at.timestamp() > 2.5)

    assert kube.log(since_seconds=1) == ""


def test_a_follower_gets_lines_as_they_are_written_and_the_end(kube: Kube, tmp_path: object) -> None:
    kube.create(
        shell(
            "echo 1; while [ ! -e /gate/open ]; do sleep 0.02; done; echo 2",
            volumeMounts=[{"name": "g", "mountPath": "/gate"}],
        ),
        SIDECAR,
        volumes=[{"name": "g", "persistentVolumeClaim": {"claimName": "gate"}}],
    )
    kube.wait_for_line("1")
    followed = kube.api.read_namespaced_pod_log(
        "subject", NAMESPACE, container="base", follow=True, _preload_content=False, _request_timeout=20
    )
    lines = iter(followed)

    assert next(lines) == b"1\n"
    (kube.runner.kubeconfig_path.parent / "claims" / NAMESPACE / "gate" / "open").touch()
    assert list(lines) == [b"2\n"]
    followed.close()


def test_the_log_of_a_waiting_container_is_refused_with_the_reason(kube: Kube) -> None:
    kube.create(shell("true"), metadata={"annotations": {"local.dpone/pending-seconds": "600"}})

    with pytest.raises(ApiException) as refusal:
        kube.log()

    assert refusal.value.status == 400
    message = json.loads(str(refusal.value.body))["message"]
    assert message == 'container "base" in pod "subject" is waiting to start: ContainerCreating'


@pytest.mark.parametrize(
    "query", ["", "?container=nope", "?container=base&tailLines=x", "?container=base&tailLines=-1"]
)
def test_a_log_request_that_makes_no_sense_is_a_bad_request(kube: Kube, query: str) -> None:
    kube.create(shell("echo"), SIDECAR)
    until(lambda: kube.state().terminated)

    assert kube.request("GET", f"/api/v1/namespaces/default/pods/subject/log{query}")[0] == 400


def test_a_large_log_arrives_whole(kube: Kube) -> None:
    kube.run(shell("seq 1 100000"))

    assert kube.log().splitlines() == [str(number) for number in range(1, 100_001)]


def test_a_runner_keeps_as_much_as_it_is_told(start: Callable[..., Kube]) -> None:
    kube = start(log_limit_bytes=1 << 20)

    kube.run(shell("seq 1 1000000"))

    first, *_, last = kube.log().splitlines()
    assert re.fullmatch(
        r"\[local pod runner: \d+ earlier lines dropped, the last 1 MiB of a container are kept\]", first
    )
    assert last == "1000000"


def test_followers_end_when_the_pod_vanishes(kube: Kube) -> None:
    kube.create(shell("echo 1; exec sleep 600"))
    kube.wait_for_line("1")
    request = urllib.request.Request(
        f"{kube.runner.url}/api/v1/namespaces/default/pods/subject/log?follow=True",
        headers={"Authorization": f"Bearer {kube.runner.token}"},
    )

    with urllib.request.urlopen(request, timeout=20) as response:
        assert response.readline() == b"1\n"
        kube.runner.vanish(NAMESPACE, "subject")
        assert response.read() == b""
