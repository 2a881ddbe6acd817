"""A project in a directory: a SQLite shop, manifests, connections, and `dpone` as its users start it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import yaml

from dpone_core.api import RunExecution, RunOptions, execute_run
from dpone_core.evidence.outcome import LoadOutcome
from dpone_core.invocation import RunArguments
from tests.forks import forked

DPONE = (sys.executable, "-m", "dpone")
CHECKOUT = Path(__file__).resolve().parents[2]
"""Whose code a command runs, also where another checkout is installed: a guard is removed from a copy."""
PATIENCE_SECONDS = 180
"""For one process on a machine that several suites share: what hangs is ended, what is slow is no failure."""
THREE_ORDERS = ((1, "a", 10), (2, "b", 20), (3, "c", 30))
ORDERS = "CREATE TABLE orders (id INTEGER NOT NULL, name TEXT, updated_at INTEGER NOT NULL)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """One ended `dpone` process. `receipt` is None when no receipt file exists."""

    exit_code: int
    stdout: str
    stderr: str
    receipt: dict[str, Any] | None

    @property
    def document(self) -> dict[str, Any]:
        """stdout as exactly one JSON object; anything beside it fails."""
        document = json.loads(self.stdout)
        assert isinstance(document, dict)
        return document

    @property
    def result(self) -> dict[str, Any]:
        return dict(self.document["result"])

    @property
    def code(self) -> str | None:
        """The stable error code of a run report or of an error object."""
        document = self.document
        found = document["result"].get("error_code") if "result" in document else document.get("code")
        return None if found is None else str(found)


@dataclass(slots=True)
class Project:
    """`shop.sqlite` is the source, `dwh.duckdb` the sink, both below `root`; evidence goes to `root/evidence`."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    started: int = 0

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.environment = {
            "DPONE_CONN_SHOP": f"sqlite:///{self.root / 'shop.sqlite'}",
            "DPONE_CONN_DWH": f"duckdb:///{self.root / 'dwh.duckdb'}",
            "DPONE_EVIDENCE_DIR": str(self.root / "evidence"),
            **self.environment,
        }

    def source(self, *statements: str) -> None:
        with sqlite3.connect(self.root / "shop.sqlite") as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    def orders(self, rows: Iterable[tuple[int, str | None, int]] = THREE_ORDERS) -> None:
        """The table `orders` with these rows in place of any it had."""
        with sqlite3.connect(self.root / "shop.sqlite") as connection:
            connection.execute("DROP TABLE IF EXISTS orders")
            connection.execute(ORDERS)
            connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", list(rows))
        connection.close()

    def add_orders(self, *rows: tuple[int, str | None, int]) -> None:
        with sqlite3.connect(self.root / "shop.sqlite") as connection:
            connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
        connection.close()

    def written(self, manifest: Mapping[str, object] | str, name: str = "m.yaml") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = manifest if isinstance(manifest, str) else yaml.safe_dump(dict(manifest), sort_keys=False)
        path.write_text(text, encoding="utf-8")
        return path

    def dpone(
        self, *arguments: str, environment: Mapping[str, str] | None = None, launcher: Iterable[str] = DPONE
    ) -> Finished:
        """Runs one command of this checkout to its end, in the project's directory and with its environment only.

        As a fork that need not start Python, unless `launcher` or a variable of Python or of the loader asks for it.
        """
        given = {**self.environment, **(environment or {})}
        if launcher is not DPONE or any(name.startswith(("PYTHON", "LD_")) for name in given):
            return self.finished(self.start(*arguments, environment=environment, launcher=launcher), arguments)
        self.started += 1
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.root), **given, "PYTHONPATH": str(CHECKOUT)}
        with tempfile.TemporaryDirectory() as directory:
            stdout, stderr = Path(directory, "stdout"), Path(directory, "stderr")
            exit_code = forked(arguments, self.root, variables, stdout, stderr, PATIENCE_SECONDS)
            return _finished(exit_code, stdout.read_text("utf-8"), stderr.read_text("utf-8"), arguments)

    def execute(self, run_id: str = "run-1", manifest: str = "m.yaml", **options: Any) -> RunExecution:
        """The same run inside this process: cheap, for broad matrices; never for ClickHouse (one path a process)."""
        return execute_run(
            self.root / manifest,
            RunOptions(arguments=RunArguments(run_id=run_id), **options),
            environment=self.environment,
            project_dir=self.root,
        )

    def run(self, *arguments: str, manifest: str = "m.yaml", environment: Mapping[str, str] | None = None) -> Finished:
        """`dpone run` with JSON output and a receipt."""
        receipt = self.root / "receipt.json"
        receipt.unlink(missing_ok=True)
        return self.dpone(
            *("run", manifest, "--format", "json", "--receipt-path", str(receipt)), *arguments, environment=environment
        )

    def start(
        self, *arguments: str, environment: Mapping[str, str] | None = None, launcher: Iterable[str] = DPONE
    ) -> subprocess.Popen[str]:
        self.started += 1
        given = {**self.environment, **(environment or {})}
        python_path = os.pathsep.join(filter(None, (str(CHECKOUT), given.get("PYTHONPATH"))))
        return subprocess.Popen(
            [*launcher, *arguments],
            cwd=self.root,
            env={"PATH": os.environ["PATH"], "HOME": str(self.root), **given, "PYTHONPATH": python_path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finished(self, process: subprocess.Popen[str], arguments: Iterable[str] = ()) -> Finished:
        try:
            stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return _finished(process.returncode, stdout, stderr, arguments)

    def target(self, sql: str = "SELECT id, name, updated_at FROM raw.orders ORDER BY ALL") -> list[tuple[Any, ...]]:
        """What the DuckDB sink answers, asked by a connection of our own after the run."""
        connection = duckdb.connect(str(self.root / "dwh.duckdb"), read_only=True)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def warehouse(self, *statements: str) -> None:
        """Changes the DuckDB sink behind dpone's back."""
        connection = duckdb.connect(str(self.root / "dwh.duckdb"))
        try:
            for statement in statements:
                connection.execute(statement)
        finally:
            connection.close()

    def files(self) -> set[str]:
        return {path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file()}


def _finished(exit_code: int, stdout: str, stderr: str, arguments: Iterable[str]) -> Finished:
    given = list(arguments)
    path = Path(given[given.index("--receipt-path") + 1]) if "--receipt-path" in given else None
    receipt = json.loads(path.read_text("ascii")) if path is not None and path.is_file() else None
    return Finished(exit_code=exit_code, stdout=stdout, stderr=stderr, receipt=receipt)


def flow(**changes: object) -> dict[str, object]:
    """A full refresh of shop.orders into raw.orders; a keyword replaces a path written with `__`, None removes it."""
    value: dict[str, Any] = {
        "kind": "dpone.flow.v1",
        "name": "orders",
        "source": {"type": "sqlite", "connection_ref": "shop", "table": {"name": "orders"}},
        "sink": {
            "type": "duckdb",
            "connection_ref": "dwh",
            "table": {"schema": "raw", "name": "orders"},
            "strategy": {"mode": "full_refresh"},
        },
    }
    for path, change in changes.items():
        *parents, last = path.split("__")
        node = value
        for part in parents:
            node = node.setdefault(part, {})
        if change is None:
            del node[last]
        else:
            node[last] = change
    return value


def append_flow(**changes: object) -> dict[str, object]:
    """incremental_append of shop.orders by updated_at, state in the sink."""
    return flow(
        **{
            "sink__strategy": {"mode": "incremental_append"},
            "source__options": {"incremental": {"cursor_column": "updated_at"}},
            "state": {"type": "sink"},
            **changes,
        }
    )


def project_with_orders(
    root: Path,
    manifest: Mapping[str, object] | None = None,
    rows: Iterable[tuple[int, str | None, int]] = THREE_ORDERS,
) -> Project:
    """A shop with the table `orders`, and `m.yaml` where a manifest is given."""
    project = Project(root)
    project.orders(rows)
    if manifest is not None:
        project.written(manifest)
    return project


def project_with_log(root: Path) -> Project:
    """A shop with the table `orders` and an empty table `log` that hooks write to."""
    project = project_with_orders(root)
    project.source("CREATE TABLE log (what TEXT)")
    return project


def loaded_project(root: Path, rows: Iterable[tuple[int, str | None, int]] = THREE_ORDERS) -> Project:
    """A shop whose orders an earlier load, with the run id `before`, has published in `raw.orders`."""
    project = project_with_orders(root, flow(), rows)
    assert project.execute("before").report.passed
    return project


def project_between(root: Path, source_uri: str, sink: str, **changes: object) -> Project:
    """A project that loads from a server into an embedded DuckDB or ClickHouse below `root`."""
    target = {"duckdb": f"duckdb:///{root / 'dwh.duckdb'}", "clickhouse": f"chdb:///{root / 'dwh'}"}[sink]
    project = Project(root, environment={"DPONE_CONN_SHOP": source_uri, "DPONE_CONN_DWH": target})
    project.written(flow(**{"sink__type": sink, **changes}))
    return project


def hook(hook_id: str, sql: str, **changes: object) -> dict[str, object]:
    """A mutating SQL hook on the source."""
    return {"id": hook_id, "type": "sql", "connector": "source", "sql": sql, "mutates_source": True, **changes}


def hooks(*, pre: Iterable[Mapping[str, object]] = (), post: Iterable[Mapping[str, object]] = ()) -> dict[str, object]:
    """`source.options.hooks`."""
    phases = {"pre_hook": list(pre), "post_hook": list(post)}
    return {"hooks": {phase: items for phase, items in phases.items() if items}}


def outcome_of(execution: RunExecution) -> LoadOutcome:
    """The outcome of the only process; a refusal fails."""
    assert execution.refusal is None, execution.refusal
    outcome = execution.outcomes[-1].report.outcome
    assert outcome is not None
    return outcome


def code_of(execution: RunExecution) -> str | None:
    """The stable code the run ended with, None for success."""
    code = getattr(execution.error, "code", None)
    return None if code is None else str(code)
