"""The same source over HTTP: exact, bounded, and an answer without its end is an error, never a short success.

Wire-tested against an HTTP endpoint over chDB; not a server or cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from dpone_core.connectors.clickhouse.open import open_source
from dpone_core.errors import ConnectorError
from dpone_core.model.load_config import TableName
from dpone_core.model.sql import SqlText
from dpone_core.ports.session import SourcePorts
from dpone_core.ports.source import ExtractRequest
from dpone_core.ports.statements import StatementScript
from dpone_core.testing.port_conformance import OpenSource, SourceConformance
from tests.connectors.sessions import connection

ROWS = 70_000
ORDERS = ExtractRequest(table=TableName(schema="src", name="orders"))


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    double = Path(__file__).with_name("clickhouse_http_double.py")
    with subprocess.Popen(
        [sys.executable, str(double), str(tmp_path_factory.mktemp("served") / "data")],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


@pytest.fixture(scope="module")
def ports(port: int) -> Iterator[SourcePorts]:
    with open_source(connection(f"clickhouse://default:s3cret@127.0.0.1:{port}/src")) as opened:
        assert opened.statements is not None
        for statement in (
            "CREATE DATABASE src",
            "CREATE TABLE src.orders (id Int64, name Nullable(String), amount Nullable(Decimal(18, 4)))"
            " ENGINE = MergeTree ORDER BY id",
            "INSERT INTO src.orders SELECT number, if(number % 2 = 0, 'n', NULL), toDecimal64(number, 4) / 10000"
            f" FROM numbers({ROWS})",
        ):
            opened.statements.execute(StatementScript(sql=SqlText(text=statement)))
        yield opened


def fault(port: int, *planned: dict[str, object]) -> None:
    body = json.dumps(planned).encode()
    urllib.request.urlopen(f"http://127.0.0.1:{port}/_faults", data=body, timeout=10).read()


class TestServedClickHouse(SourceConformance):
    @pytest.fixture
    def source(self, ports: SourcePorts) -> OpenSource:
        return OpenSource(
            ports=ports,
            request=ORDERS,
            absent=ExtractRequest(table=TableName(schema=None, name="nothing")),
            rows=ROWS,
            narrowed=lambda window: replace(ORDERS, window=window),
        )


def read(ports: SourcePorts, request: ExtractRequest) -> list[dict[str, object]]:
    stream = ports.source.open_stream(request, ports.source.describe(request))
    return [row for batch in stream.batches() for row in batch.to_pylist()]


def test_values_and_tokens_are_the_same_over_http(ports: SourcePorts) -> None:
    text = (
        "SELECT {{ ds }} AS token, CAST('x' AS LowCardinality(Nullable(String))) AS low,"
        " CAST('a' AS Enum8('a' = 1)) AS e, toDecimal256('1.5', 40) AS d, toDateTime('2024-01-01 00:00:00') AS t"
    )
    request = ExtractRequest(query=SqlText(text=text), token_values={"ds": "a'b\\c\td\ne"})
    assert read(ports, request) == [
        {"token": "a'b\\c\td\ne", "low": "x", "e": "a", "d": Decimal("1.5"), "t": datetime(2024, 1, 1, tzinfo=UTC)}
    ]


@pytest.mark.parametrize("stage", ["cut", "text", "half"])
def test_an_answer_without_its_end_is_an_error(port: int, ports: SourcePorts, stage: str) -> None:
    fault(port, {"match": "dpone_c0", "stage": stage})
    with pytest.raises(ConnectorError) as raised:
        read(ports, ORDERS)
    assert raised.value.code in ("source_unreachable", "source_query_refused")
    assert "injected" not in str(raised.value)
    fault(port)
    assert len(read(ports, ORDERS)) == ROWS


def test_a_refusal_of_the_server_is_named_so(port: int, ports: SourcePorts) -> None:
    fault(port, {"match": "dpone_c0", "stage": "before", "code": 241})
    with pytest.raises(ConnectorError) as raised:
        read(ports, ORDERS)
    assert raised.value.code == "source_query_refused"
    fault(port)
