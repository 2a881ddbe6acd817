"""Whole loads with declared special values: both sides agree, the counts are those of the very rows, a resume keeps
them, and an undeclared value is still refused before the target changes. Real PostgreSQL, MariaDB and DuckDB.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from dpone_core.api import RunExecution
from dpone_core.evidence.markdown import run_markdown
from dpone_core.native_transfer.ledger import CONVERTED_FIELD
from tests.connectors.mysql_servers import connected
from tests.live.servers import scratch_mysql, scratch_postgres
from tests.spec.builders import Project, code_of, flow, outcome_of
from tests.spec.native_transfer.fan_out_process import FanOut, fan_out_append_flow, fan_out_flow
from tests.spec.native_transfer.fan_out_process import split as fan_out_split

QUALITY = {
    "gates": [{"type": "row_count_reconciliation"}, {"type": "typed_hash_reconciliation"}],
    "acceptance": {
        "enabled": True,
        "mode": "required",
        "capture": {"staged": False},
        "checks": {"row_count": True, "null_counts": "all_columns", "distinct_counts": ["id", "till", "rate"]},
    },
}
RANGED = {**QUALITY, "gates": [{"type": "row_count_reconciliation"}]}
ROWS = 1000
RULES = [
    {"columns": ["till", "seen"], "value": "infinity", "becomes": None},
    {"columns": ["till"], "value": "-infinity", "becomes": "0001-01-01"},
    {"columns": ["rate"], "value": "nan", "becomes": "-1.00"},
]
POSTGRES = f"""
CREATE TABLE history (id int8 PRIMARY KEY, till date NOT NULL, seen timestamptz, rate numeric(9,2), name text);
INSERT INTO history SELECT i, CASE i % 4 WHEN 0 THEN 'infinity' WHEN 1 THEN '-infinity' ELSE date '2026-01-01' + i END,
    CASE WHEN i % 10 = 0 THEN 'infinity' WHEN i % 10 = 1 THEN NULL ELSE timestamptz '2026-01-01 00:00+00' END,
    CASE WHEN i % 5 = 0 THEN 'NaN'::numeric ELSE i END, 'n' || i FROM generate_series(1, {ROWS}) i
"""
CONVERTED = {"till:infinity": 250, "seen:infinity": 100, "till:-infinity": 250, "rate:nan": 200}
TARGET = (
    "SELECT count(*), count(till), count(seen), count(*) FILTER (till = '0001-01-01'), count(*) FILTER (rate = -1)"
    " FROM raw.orders"
)
IN_TARGET = [(ROWS, 750, 800, 250, 200)]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with scratch_postgres() as uri:
        with psycopg.connect(uri, autocommit=True) as server:
            server.execute(POSTGRES.encode())
        yield uri


@pytest.fixture(scope="module")
def mysql() -> Iterator[str]:
    with scratch_mysql() as uri:
        with closing(connected(uri)) as session, session.cursor() as cursor:
            cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
            cursor.execute("CREATE TABLE history (id BIGINT PRIMARY KEY, till DATE NOT NULL, seen DATETIME(3))")
            values = ", ".join(
                f"({i}, '{('0000-00-00', '2024-00-15', '2024-01-31')[i % 3]}',"
                f" {'NULL' if i % 2 else repr('0000-00-00 00:00:00')})"
                for i in range(1, 301)
            )
            cursor.execute(f"INSERT INTO history VALUES {values}")
        yield uri


def from_postgres(*rules: dict[str, object], **changes: object) -> dict[str, object]:
    source = {"type": "postgres", "connection_ref": "pg", "table": {"schema": "public", "name": "history"}}
    return flow(**{"source": source, "source__options": {"special_values": list(rules)}, "quality": QUALITY, **changes})


def split(workers: int = 2, count: int = 4, **options: object) -> dict[str, object]:
    return {
        "special_values": RULES,
        "partitioning": {"column": "id", "num_partitions": count, "workers": workers, **options},
    }


@pytest.fixture(name="project")
def postgres_project(tmp_path: Path, postgres: str) -> Project:
    return Project(tmp_path, environment={"DPONE_CONN_PG": postgres})


def loaded(project: Project) -> dict[str, Any]:
    """The result of a run inside this process; gates passed and all measured sides agree."""
    execution = project.execute("r1")
    assert code_of(execution) is None, execution.error
    return succeeded(execution.outcomes[-1].report.as_json()["result"])


def succeeded(result: Any) -> dict[str, Any]:
    details = result["details"]["reconciliation_metrics"]
    assert {gate["status"] for gate in details["quality_gates"]["results"]} == {"passed"}
    snapshots = details["acceptance_metrics"]["snapshots"].values()
    assert len({json.dumps([s["row_count"], s["null_counts"], s["distinct_counts"]]) for s in snapshots}) == 1
    return dict(result)


def counts(result: dict[str, Any]) -> dict[str, int | None]:
    return {f"{each['column']}:{each['value']}": each["converted"] for each in result["details"]["converted_values"]}


def reused(result: dict[str, Any]) -> int:
    (staged,) = (step for step in result["details"]["load_steps"] if step["step_id"] == "staged")
    return int(staged["details_json"]["partitions_reused"])


def published(project: Project, name: str) -> str:
    (path,) = (project.root / "evidence" / "runs").rglob(name)
    return path.read_text()


def test_postgres_converts_counts_and_reconciles(project: Project) -> None:
    project.written(from_postgres(*RULES))
    finished = project.run("--run-id", "r1")
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert counts(succeeded(finished.result)) == CONVERTED
    assert project.target(TARGET) == IN_TARGET
    run = json.loads(published(project, "run.json"))
    (staged,) = (s for s in run["report"]["result"]["details"]["load_steps"] if s["step_id"] == "staged")
    assert [each["converted"] for each in staged["details_json"]["converted_values"]] == [250, 100, 250, 200]
    assert run["plan"]["special_values"][0] == {"column": "till", "value": "infinity", "becomes": "NULL"}
    markdown, page = published(project, "report.md"), published(project, "report.html")
    assert "| till | -infinity | 0001-01-01 | 250 |" in markdown and "| seen | infinity | NULL | 100 |" in markdown
    assert "Converted values" in page and "<code>till</code>" in page
    ((details,),) = project.target(
        "SELECT details_json FROM etl_state.__dpone__load_steps WHERE step_id = 'staged' AND status = 'succeeded'"
    )
    assert [each["converted"] for each in json.loads(details)["converted_values"]] == [250, 100, 250, 200]


def test_a_null_replacement_makes_a_not_null_column_nullable_and_no_other_one(project: Project) -> None:
    nullable = "SELECT is_nullable FROM duckdb_columns() WHERE table_name = 'orders' AND column_name = 'till'"
    project.written(from_postgres(*RULES))
    loaded(project)
    assert project.target(nullable) == [(True,)]
    ends = [{"columns": ["till", "seen"], "value": "infinity", "becomes": None} for _ in ()]
    ends += [{"columns": ["till"], "value": "infinity", "becomes": "9999-12-31"}, *RULES[1:]]
    ends += [{"columns": ["seen"], "value": "infinity", "becomes": "9999-12-31T00:00:00Z"}]
    other = Project(project.root / "other", environment={"DPONE_CONN_PG": project.environment["DPONE_CONN_PG"]})
    other.written(from_postgres(*ends))
    loaded(other)
    assert other.target(nullable) == [(False,)]


def test_an_existing_not_null_target_refuses_a_column_that_may_become_null(project: Project) -> None:
    columns = "id BIGINT NOT NULL, till DATE NOT NULL, seen TIMESTAMPTZ, rate DECIMAL(9,2), name VARCHAR"
    project.warehouse("CREATE SCHEMA raw", f"CREATE TABLE raw.orders ({columns})")
    append = {
        "sink__strategy": {"mode": "incremental_append"},
        "state": {"type": "sink"},
        "source__options": {"special_values": RULES, "incremental": {"cursor_column": "id"}},
    }
    project.written(from_postgres(**append))
    finished = project.run("--run-id", "r1")
    assert (finished.exit_code, finished.code) == (1, "target_schema_differs")
    assert "'till' may be NULL" in finished.stdout
    assert project.target("SELECT count(*) FROM raw.orders") == [(0,)]


@pytest.mark.parametrize("dropped", range(3))
def test_without_one_of_the_rules_the_load_is_refused_by_column(project: Project, dropped: int) -> None:
    project.written(from_postgres(*(rule for i, rule in enumerate(RULES) if i != dropped)))
    execution = project.execute("r1")
    assert code_of(execution) == "source_value_out_of_range"
    assert repr(("till", "till", "rate")[dropped]) in str(execution.error)
    assert outcome_of(execution).result.final_rows is None
    found = outcome_of(execution).result.converted_values
    assert found and all(each.count is None for each in found)
    assert "| unknown |" in run_markdown(execution.report, None)


def test_a_rule_that_cannot_be_followed_is_refused_before_anything_is_read(project: Project) -> None:
    project.written(from_postgres(*RULES, {"columns": ["name"], "value": "nan", "becomes": None}))
    finished = project.run("--run-id", "r1")
    assert (finished.exit_code, finished.code) == (1, "special_values_refused")
    assert "'name'" in finished.stdout and finished.receipt is not None
    assert finished.receipt["target_state"] == "not_mutated"


def test_a_source_that_converts_nothing_is_refused_by_check_plan_and_run(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.orders()
    project.written(flow(source__options={"special_values": RULES}))
    for command in ("check", "plan", "run"):
        finished = project.dpone(command, "m.yaml")
        assert (
            finished.exit_code == 2 and "source 'sqlite' cannot convert 'infinity'" in finished.stdout + finished.stderr
        )
    assert code_of(project.execute("r1")) == "DPONE_ROUTE_REFUSED"
    assert not (tmp_path / "dwh.duckdb").exists()


def test_a_manifest_without_rules_says_nothing_of_them(project: Project) -> None:
    flat = {"sql": "SELECT id, name FROM history"}
    source = {"type": "postgres", "connection_ref": "pg", "options": {"query": flat}}
    project.written(flow(source=source))
    finished = project.run("--run-id", "r1")
    assert finished.exit_code == 0, finished.stdout
    assert "converted_values" not in finished.stdout and "special_values" not in published(project, "run.json")


def test_ranges_convert_and_count_what_they_publish(project: Project) -> None:
    project.written(from_postgres(source__options=split(), quality=RANGED))
    assert counts(loaded(project)) == CONVERTED and project.target(TARGET) == IN_TARGET
    transfer = json.loads(next((project.root / "evidence").rglob("native_transfer_runtime_*.json")).read_text())
    assert transfer["converted_values"] == CONVERTED


@pytest.mark.slow
def test_ranges_of_a_legacy_sink_count_too(project: Project) -> None:
    sink = {
        "type": "files",
        "connection_ref": "lake",
        "table": {"name": "orders"},
        "strategy": {"mode": "incremental_append"},
    }
    options = {**split(workers=1), "incremental": {"cursor_column": "id"}}
    project.environment["DPONE_CONN_LAKE"] = f"file:///{project.root / 'lake'}"
    project.written(from_postgres(sink=sink, source__options=options, state={"type": "sink"}, quality={}))
    finished = project.run("--run-id", "r1")
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    parts = f"read_parquet('{project.root}/lake/**/*.parquet')"
    (found,) = duckdb.sql(
        "SELECT count(*) - count(till), count(*) FILTER (till = '0001-01-01'), count(*) FILTER (rate = -1)"
        f" FROM {parts}"
    ).fetchall()
    names = ("till:infinity", "till:-infinity", "rate:nan")
    assert tuple(counts(finished.result)[name] for name in names) == found == (249, 250, 199)


class Interrupted:
    """The second of four ranges meets an undeclared value; a person corrects it, and the same run goes on."""

    BROKEN = "UPDATE history SET till = 'infinity', seen = '-infinity' WHERE id = 999"
    MENDED = "UPDATE history SET till = '2026-01-01', seen = NULL WHERE id = 999"


@pytest.fixture
def interrupted(postgres: str) -> Iterator[Callable[[str], None]]:
    with psycopg.connect(postgres, autocommit=True) as server:
        before = server.execute("SELECT till, seen IS NULL FROM history WHERE id = 999").fetchall()
        assert len(before) == 1

        def change(sql: str) -> None:
            server.execute(sql.encode())

        yield change
        server.execute(b"UPDATE history SET till = date '2026-01-01' + 999, seen = '2026-01-01+00' WHERE id = 999")


def test_a_resume_counts_the_ranges_it_does_not_read_again(
    project: Project, interrupted: Callable[[str], None]
) -> None:
    project.written(from_postgres(source__options=split(workers=1), quality=RANGED))
    interrupted(Interrupted.BROKEN)
    assert code_of(project.execute("r1")) == "source_value_out_of_range"
    interrupted(Interrupted.MENDED)
    result = loaded(project)
    assert reused(result) == 4 and result["extracted_rows"] < ROWS
    assert counts(result) == CONVERTED and project.target(TARGET) == [(ROWS, 750, 799, 250, 200)]


def test_another_rule_is_another_transfer(project: Project, interrupted: Callable[[str], None]) -> None:
    project.written(from_postgres(source__options=split(workers=1), quality=RANGED))
    interrupted(Interrupted.BROKEN)
    assert code_of(project.execute("r1")) == "source_value_out_of_range"
    interrupted(Interrupted.MENDED)
    changed = [{**RULES[2], "becomes": "-2.00"} if rule is RULES[2] else rule for rule in RULES]
    project.written(from_postgres(source__options={**split(workers=1), "special_values": changed}, quality=RANGED))
    assert reused(loaded(project)) == 0
    assert project.target("SELECT count(*) FROM raw.orders WHERE rate = -2") == [(200,)]
    assert project.target("SELECT count(*) FROM raw.orders WHERE rate = -1") == [(0,)]


def test_a_staged_range_without_its_counts_is_read_again(project: Project, interrupted: Callable[[str], None]) -> None:
    project.written(from_postgres(source__options=split(workers=1), quality=RANGED))
    interrupted(Interrupted.BROKEN)
    assert code_of(project.execute("r1")) == "source_value_out_of_range"
    interrupted(Interrupted.MENDED)
    forget = f"record_json = replace(record_json, '{CONVERTED_FIELD}', 'forgotten')"
    project.warehouse(f"UPDATE etl_state.__dpone__transfer_checkpoints SET {forget}")
    result = loaded(project)
    assert reused(result) == 0 and counts(result) == CONVERTED


@pytest.mark.slow
def test_mapped_ranges_hand_their_counts_to_who_publishes_them(tmp_path: Path, postgres: str) -> None:
    fan_out = FanOut.at(tmp_path, postgres)
    fan_out.sql(
        "ALTER TABLE t ADD till date DEFAULT '2026-01-01'",
        "UPDATE t SET till = 'infinity' WHERE id % 10 = 0 OR id IS NULL",
    )
    rules = [{"columns": ["till"], "value": "infinity", "becomes": "9999-12-31"}]
    fan_out.project.written(fan_out_flow(source__options={"partitioning": fan_out_split(), "special_values": rules}))
    execution = fan_out.publish(fan_out.staged())
    assert code_of(execution) is None, execution.error
    assert counts(execution.outcomes[-1].report.as_json()["result"]) == {"till:infinity": 11}
    assert fan_out.sql("SELECT count(*) FROM raw.orders WHERE till = '9999-12-31'") == [(11,)]
    details = fan_out.sql(
        "SELECT details_json FROM etl_state.__dpone__load_steps WHERE step_id = 'staged' AND status = 'succeeded'"
        " AND details_json LIKE '%partition_index%'"
    )
    found = [json.loads(text)["converted_values"][0]["converted"] for (text,) in details]
    assert len(found) == 4 and sum(found) == 11


def converted(execution: RunExecution) -> int | None:
    assert code_of(execution) is None, execution.error
    (found,) = outcome_of(execution).result.converted_values
    return found.count


def test_a_resume_counts_what_earlier_attempts_have_committed(tmp_path: Path, postgres: str) -> None:
    fan_out = FanOut.at(tmp_path, postgres)
    fan_out.sql(
        "ALTER TABLE t ADD till date DEFAULT '2026-01-01'",
        "UPDATE t SET till = 'infinity' WHERE id % 10 = 0 OR id IS NULL",
        "CREATE SCHEMA raw",
        "CREATE TABLE raw.orders (id int8 CHECK (id < 50), v text, at int8 NOT NULL, till date)",
    )
    rules = [{"columns": ["till"], "value": "infinity", "becomes": "9999-12-31"}]
    options = {"partitioning": fan_out_split(), "incremental": {"cursor_column": "at"}, "special_values": rules}
    quality = {"gates": [{"type": "row_count_reconciliation"}]}
    fan_out.project.written(fan_out_append_flow(source__options=options, quality=quality))
    plan = fan_out.staged()
    assert code_of(fan_out.publish(plan)) is not None
    assert [status for status, _ in fan_out.checkpoints()] == ["committed", "committed", "failed", "loaded"]
    fan_out.sql("ALTER TABLE raw.orders DROP CONSTRAINT orders_id_check")
    assert fan_out.load(plan, 2).error is None
    assert converted(fan_out.publish(plan)) == 10  # the row of the newest cursor value waits
    assert fan_out.sql("SELECT count(*) FROM raw.orders WHERE till = '9999-12-31'") == [(10,)]
    assert converted(fan_out.publish(plan)) == 10, "nothing is left to transfer, and what is there was converted"
    fan_out.sql(
        f"UPDATE etl_state.__dpone__transfer_checkpoints SET record_json = replace(record_json, '{CONVERTED_FIELD}',"
        " 'forgotten') WHERE partition_index = 1"
    )
    assert converted(fan_out.publish(plan)) is None


def test_a_failed_range_leaves_the_counts_unknown(project: Project, interrupted: Callable[[str], None]) -> None:
    project.written(from_postgres(source__options=split(workers=1), quality=RANGED))
    interrupted(Interrupted.BROKEN)
    execution = project.execute("r1")
    assert code_of(execution) == "source_value_out_of_range"
    assert [each.count for each in outcome_of(execution).result.converted_values] == [None] * 4


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("reader", ["auto", pytest.param("pymysql", marks=pytest.mark.slow)])
def test_mysql_converts_counts_and_reconciles(tmp_path: Path, mysql: str, reader: str, partitioned: bool) -> None:
    project = Project(tmp_path, environment={"DPONE_CONN_SHOP": f"{mysql}?reader={reader}"})
    rules: list[dict[str, Any]] = [
        {"columns": ["till"], "value": "zero_date", "becomes": None},
        {"columns": ["till"], "value": "partial_date", "becomes": "2024-01-15"},
        {"columns": ["seen"], "value": "zero_date", "becomes": "2000-01-01T00:00:00.125"},
    ]
    options: dict[str, Any] = {"special_values": rules}
    if partitioned:
        options["partitioning"] = {"column": "id", "num_partitions": 3, "workers": 2}
    quality = json.loads(json.dumps(RANGED if partitioned else QUALITY).replace("rate", "seen"))
    project.written(
        flow(source__type="mysql", source__table={"name": "history"}, source__options=options, quality=quality)
    )
    assert counts(loaded(project)) == {"till:zero_date": 100, "till:partial_date": 100, "seen:zero_date": 150}
    assert project.target(
        "SELECT count(*) - count(till), count(*) FILTER (till = '2024-01-15'),"
        " count(*) FILTER (seen = '2000-01-01 00:00:00.125'), count(*) FROM raw.orders"
    ) == [(100, 100, 150, 300)]


def test_duckdb_converts_counts_and_reconciles(tmp_path: Path) -> None:
    project = Project(tmp_path, environment={"DPONE_CONN_SHOP": f"duckdb:///{tmp_path / 'source.duckdb'}"})
    with closing(duckdb.connect(str(tmp_path / "source.duckdb"))) as made:
        made.execute("CREATE TABLE history (id BIGINT NOT NULL, till DATE NOT NULL, rate DOUBLE)")
        made.execute(
            "INSERT INTO history SELECT i, CASE WHEN i % 4 = 0 THEN 'infinity' ELSE '2026-01-01' END,"
            " CASE WHEN i % 5 = 0 THEN 'NaN' ELSE i / 3 END FROM range(1, 1001) AS numbers(i)"
        )
    rules = [
        {"columns": ["till"], "value": "infinity", "becomes": "9999-12-31"},
        {"columns": ["rate"], "value": "nan", "becomes": None},
    ]
    project.written(
        flow(
            source__type="duckdb",
            source__table={"name": "history"},
            source__options={"special_values": rules},
            quality=QUALITY,
        )
    )
    assert counts(loaded(project)) == {"till:infinity": 250, "rate:nan": 200}
    found = "SELECT count(*) FILTER (till = '9999-12-31'), count(*) - count(rate), count(*) FROM raw.orders"
    assert project.target(found) == [(250, 200, 1000)]
