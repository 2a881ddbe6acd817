"""Fields that exclude, need or have no effect without each other are refused by `check`.

Contract: HOOK-19, MAN-11, MAN-13, MAN-15, MAN-23, YAML-02.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_core.model.vocabulary import HookRetryPolicy, StateType
from tests.spec.manifest.manifests import codes_and_paths, flow, loaded, problems_of

INCREMENTAL = {"sink__strategy__mode": "incremental_append", "state": {"type": "sink"}}


def test_a_cursor_is_a_column_name_and_the_hint_shows_the_way(tmp_path: Path) -> None:
    for expression in ("COALESCE(a, b)", "a.b", "a b", "updated_at::date", "[x]", '"x"', "a+1", ""):
        manifest = flow(source__options={"incremental": {"cursor_column": expression}}, **INCREMENTAL)
        [problem] = problems_of(tmp_path, manifest)
        assert problem.path == "source.options.incremental.cursor_column"
        assert "plain column name" in problem.message
        assert problem.fix is not None and "alias" in problem.fix and "query" in problem.fix


def test_unicode_column_names_are_plain(tmp_path: Path) -> None:
    manifest = flow(source__options={"incremental": {"cursor_column": "geändert_am"}}, **INCREMENTAL)
    [process] = loaded(tmp_path, manifest).processes
    assert process.source.incremental is not None
    assert process.source.incremental.cursor_column == "geändert_am"
    assert process.state is StateType.SINK


def test_merge_without_a_key_is_refused_by_check(tmp_path: Path) -> None:
    options = {"incremental": {"cursor_column": "updated_at"}}
    manifest = flow(source__options=options, sink__strategy__mode="incremental_merge", state={"type": "sink"})
    assert ("DPONE_MANIFEST_MISSING_FIELD", "sink.strategy.unique_key") in codes_and_paths(tmp_path, manifest)


def test_an_unknown_key_below_execution_airflow_is_refused(tmp_path: Path) -> None:
    hook = {"id": "a", "sql": "SELECT 1", "execution": {"airflow": "inline", "pool": "x"}}
    manifest = flow(source__options={"hooks": {"pre_hook": [hook]}})
    assert codes_and_paths(tmp_path, manifest) == [
        ("DPONE_MANIFEST_UNKNOWN_FIELD", "source.options.hooks.pre_hook[0].execution.pool")
    ]


def test_engine_settings_cannot_be_smuggled_in(tmp_path: Path) -> None:
    manifest = flow(sink__options={"settings": {"wait_for_async_insert": 0}})
    assert codes_and_paths(tmp_path, manifest) == [("DPONE_MANIFEST_UNKNOWN_FIELD", "sink.options.settings")]


@pytest.mark.parametrize(
    ("hook", "policy"),
    [
        ({"kind": "source_refresh"}, HookRetryPolicy.NONE),
        ({"mutates_source": True}, HookRetryPolicy.NONE),
        ({}, HookRetryPolicy.DEFAULT),
        ({"mutates_source": True, "retry_policy": "default"}, HookRetryPolicy.DEFAULT),
        ({"retry_policy": "none"}, HookRetryPolicy.NONE),
    ],
)
def test_a_hook_that_could_harm_twice_is_not_retried_unless_told(
    tmp_path: Path, hook: dict[str, object], policy: HookRetryPolicy
) -> None:
    manifest = flow(source__options={"hooks": {"pre_hook": [{"id": "a", "sql": "SELECT 1"} | hook]}})
    [process] = loaded(tmp_path, manifest).processes
    assert process.hooks[0].retry_policy is policy


def test_hook_ids_are_unique_in_their_phase_only(tmp_path: Path) -> None:
    hook = {"id": "a", "sql": "SELECT 1"}
    hooks = {"pre_hook": [hook], "post_hook": [hook]}
    assert len(loaded(tmp_path, flow(source__options={"hooks": hooks})).processes[0].hooks) == 2


def test_an_unused_connection_is_an_error(tmp_path: Path) -> None:
    manifest = flow(connections={"other": {"uri": "chdb:///x"}})
    assert codes_and_paths(tmp_path, manifest) == [("DPONE_MANIFEST_CONFLICT", "connections.other")]


def test_every_interval_token_is_known(tmp_path: Path) -> None:
    tokens = ("data_interval_start", "data_interval_end", "logical_date", "ds", "run_id", "partition_key")
    sql = "SELECT 1 WHERE " + " AND ".join(f"a > {{{{ {token} }}}}" for token in tokens)
    [process] = loaded(tmp_path, flow(source__table=None, source__options={"query": {"sql": sql}})).processes
    assert process.source.query is not None and process.source.query.tokens == tokens


def test_a_misspelt_token_is_found_with_a_hint(tmp_path: Path) -> None:
    sql = "SELECT 1 WHERE a > {{ data_interval_begin }}"
    [problem] = problems_of(tmp_path, flow(source__table=None, source__options={"query": {"sql": sql}}))
    assert problem.code == "DPONE_SQL_TOKEN_UNKNOWN"
    assert problem.fix is not None and "data_interval_" in problem.fix


def test_off_and_false_mean_the_same(tmp_path: Path) -> None:
    def meaning(selector: object) -> str:
        acceptance = {"enabled": True, "checks": {"null_counts": selector}}
        return loaded(tmp_path, flow(quality={"acceptance": acceptance})).semantic_fingerprint

    assert meaning("off") == meaning(False) == meaning("none")
    assert meaning(True) == meaning("all_columns") != meaning("off")


def test_a_table_that_two_processes_write_is_not_replaced_by_one_of_them(tmp_path: Path) -> None:
    """The second full refresh would remove the rows of the first; a table without schema lies in the sink's default."""

    def processes(*modes: str, **second: object) -> dict[str, object]:
        cursor = {"source__options": {"incremental": {"cursor_column": "id"}}, "state": {"type": "sink"}}
        one, two = (
            flow(
                kind=None,
                name=f"p{number}",
                sink__strategy__mode=mode,
                sink__type="duckdb",
                **({} if mode == "full_refresh" else cursor),
                **(second if number == 1 else {}),
            )
            for number, mode in enumerate(modes)
        )
        return {"kind": "dpone.flow.v1", "processes": [one, two]}

    both = processes("full_refresh", "full_refresh")
    [problem] = problems_of(tmp_path, both)
    assert (problem.code, problem.path) == ("DPONE_MANIFEST_CONFLICT", "processes[1].sink.strategy.mode")
    assert "'p0'" in problem.message and problem.fix
    assert codes_and_paths(tmp_path, processes("full_refresh", "incremental_append")) == [
        ("DPONE_MANIFEST_CONFLICT", "processes[0].sink.strategy.mode")
    ]
    main = {"sink__table": {"schema": "main", "name": "orders"}}
    default = processes("full_refresh", "full_refresh", **main)
    default["processes"][0]["sink"]["table"] = {"name": "orders"}  # type: ignore[index]
    assert problems_of(tmp_path, default)
    assert not problems_of(tmp_path, processes("incremental_append", "incremental_append"))
    assert not problems_of(tmp_path, processes("full_refresh", "full_refresh", sink__connection_ref="other"))
