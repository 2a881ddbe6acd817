"""The data contract (ODCS 3) that says what a process declares: its columns and the rules of its gates.

What the standard has no word for is named, never written as something else. Contract: GATE-41.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dpone_core.authoring.quality import (
    AcceptedValuesGate,
    CustomSqlGate,
    FreshnessGate,
    MinRowsGate,
    NotNullGate,
    RowToleranceSection,
    UniqueGate,
)
from dpone_core.authoring.source import duration_of
from dpone_core.model.column_rules import Expectation, FreshnessReference, RuleScope
from dpone_core.model.load_config import TableName
from dpone_core.model.sql import STAGED_TOKEN, SqlText, name_staged
from dpone_core.model.table_schema import Column, ColumnKind
from dpone_core.model.vocabulary import Severity, ToleranceMode

if TYPE_CHECKING:
    from open_data_contract_standard.model import OpenDataContractStandard

API_VERSION: Final = "v3.1.0"
_LOGICAL: Final = {
    ColumnKind.BOOLEAN: "boolean",
    ColumnKind.STRING: "string",
    ColumnKind.UUID: "string",
    ColumnKind.DATE: "date",
    ColumnKind.TIME: "time",
    ColumnKind.TIMESTAMP: "timestamp",
    ColumnKind.TIMESTAMP_TZ: "timestamp",
    ColumnKind.FLOAT32: "number",
    ColumnKind.FLOAT64: "number",
    ColumnKind.DECIMAL: "number",
}
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


@dataclass(slots=True, kw_only=True)
class ExportedContract:
    """`left_out` names what the contract does not hold, with the reason: gates, and types that nobody declared."""

    model: OpenDataContractStandard
    left_out: list[str]


@dataclass(slots=True, kw_only=True)
class _Export:
    table: TableName
    properties: dict[str, dict[str, Any]] = field(default_factory=dict)
    quality: list[dict[str, Any]] = field(default_factory=list)
    agreements: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, gate: object) -> None:
        adding: dict[type, Callable[[Any], str | None]] = {
            NotNullGate: self._not_null,
            UniqueGate: self._unique,
            AcceptedValuesGate: self._accepted_values,
            FreshnessGate: self._freshness,
            MinRowsGate: self._min_rows,
            CustomSqlGate: self._statement,
        }
        add = adding.get(type(gate))
        reason = (
            add(gate) if add is not None else "it compares source and target, and a contract is of the target alone"
        )
        if reason is not None:
            self.left_out.append(f"gate {getattr(gate, 'id', '')!r}: {reason}")

    def property_of(self, column: str) -> dict[str, Any]:
        return self.properties.setdefault(column, {"name": column})

    def _not_null(self, gate: NotNullGate) -> str | None:
        if len(gate.columns) == 1 and gate.id == f"required:{gate.columns[0]}" and _is_plain(gate):
            self.property_of(gate.columns[0])["required"] = True
            return None
        if len(gate.columns) > 1 and gate.tolerance.value:
            return "its tolerance is of several columns together"
        for column in gate.columns:
            name = gate.id if len(gate.columns) == 1 else f"{gate.id}:{column}"
            self._add_metric(column, "nullValues", name, gate.severity, gate.tolerance)
        return None

    def _unique(self, gate: UniqueGate) -> str | None:
        if gate.tolerance.value:
            return "the standard counts duplicates in another way"
        if gate.within is RuleScope.TARGET:
            return "the standard has no word for rows of other loads"
        if len(gate.columns) == 1 and gate.id == f"unique:{gate.columns[0]}" and _is_plain(gate):
            self.property_of(gate.columns[0])["unique"] = True
        elif gate.id == "primary_key" and _is_plain(gate):
            for position, column in enumerate(gate.columns, 1):
                self.property_of(column).update(primaryKey=True, primaryKeyPosition=position)
        else:
            self.quality.append(
                {
                    "name": gate.id,
                    "type": "library",
                    "metric": "duplicateValues",
                    "arguments": {"properties": list(gate.columns)},
                    "mustBe": 0,
                    **_severity(gate.severity),
                }
            )
        return None

    def _accepted_values(self, gate: AcceptedValuesGate) -> str | None:
        if not gate.allow_null and gate.tolerance.value:
            return "its tolerance is of other values and NULL together"
        self._add_metric(
            gate.column, "invalidValues", gate.id, gate.severity, gate.tolerance, {"validValues": list(gate.values)}
        )
        if not gate.allow_null:
            self._add_metric(gate.column, "nullValues", f"{gate.id}:not_null", gate.severity, gate.tolerance)
        return None

    def _freshness(self, gate: FreshnessGate) -> str | None:
        if gate.reference is FreshnessReference.INTERVAL_END:
            return "it counts from the end of the run's interval, and an agreement counts from now"
        if gate.severity is not Severity.ERROR:
            return "an agreement has no severity"
        seconds = int(duration_of(gate.max_age).total_seconds())
        size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
        element = f"{self.table.name}.{gate.column}"
        agreed = {"property": "freshness", "value": seconds // size, "unit": unit, "element": element}
        self.agreements.append(agreed | ({"id": gate.id} if gate.id != f"freshness:{gate.column}" else {}))
        return None

    def _min_rows(self, gate: MinRowsGate) -> str | None:
        if gate.side != "target":
            return "it counts rows of the source"
        least = {"metric": "rowCount", "mustBeGreaterOrEqualTo": gate.threshold}
        self.quality.append({"name": gate.id, "type": "library", **least, **_severity(gate.severity)})
        return None

    def _statement(self, gate: CustomSqlGate) -> str | None:
        if gate.tolerance.mode is ToleranceMode.PCT and gate.tolerance.value:
            return "its tolerance is a share of the rows"
        sql = SqlText(text=gate.sql or "")
        if [token for token in sql.tokens if token != STAGED_TOKEN]:
            return "its statement reads the run's interval"
        text = name_staged(sql, "${table}").text.strip().rstrip(";")
        query = f"SELECT count(*) FROM (\n{text}\n) AS failing" if gate.expect is Expectation.ZERO_ROWS else text
        limit = _limit(gate.tolerance)
        self.quality.append({"name": gate.id, "type": "sql", "query": query, **limit, **_severity(gate.severity)})
        return None

    def _add_metric(
        self,
        column: str,
        metric: str,
        name: str,
        severity: Severity,
        tolerance: RowToleranceSection,
        arguments: dict[str, object] | None = None,
    ) -> None:
        rule = {"name": name, "type": "library", "metric": metric, **({"arguments": arguments} if arguments else {})}
        self.property_of(column).setdefault("quality", []).append(rule | _limit(tolerance) | _severity(severity))


def export_contract(
    process: str, table: TableName, columns: Sequence[Column], gates: Sequence[object]
) -> ExportedContract:
    """The contract of one process. `columns` are those that the manifest declares, in its order."""
    from open_data_contract_standard.model import OpenDataContractStandard

    export = _Export(table=table)
    for column in columns:
        export.property_of(column.name).update(_described(column))
    for gate in gates:
        export.add(gate)
    typed = {column.name for column in columns}
    untyped = [
        f"type of column {name!r}: the manifest does not declare it" for name in export.properties if name not in typed
    ]
    export.left_out += untyped
    described = {
        "name": table.name,
        "physicalName": str(table),
        "logicalType": "object",
        "physicalType": "table",
        "properties": list(export.properties.values()),
        **({"quality": export.quality} if export.quality else {}),
    }
    document = {
        "version": "1.0.0",
        "kind": "DataContract",
        "apiVersion": API_VERSION,
        "id": f"urn:dpone:{process}",
        "name": process,
        "status": "draft",
        "schema": [described],
        **({"slaProperties": export.agreements} if export.agreements else {}),
    }
    return ExportedContract(model=OpenDataContractStandard.model_validate(document), left_out=export.left_out)


def _described(column: Column) -> Iterator[tuple[str, object]]:
    yield "logicalType", _LOGICAL.get(column.type.kind, "integer" if "int" in column.type.kind.value else "string")
    yield "physicalType", str(column.type)


def _is_plain(gate: NotNullGate | UniqueGate) -> bool:
    return gate.severity is Severity.ERROR and not gate.tolerance.value


def _severity(severity: Severity) -> dict[str, object]:
    return {} if severity is Severity.ERROR else {"severity": severity.value}


def _limit(tolerance: RowToleranceSection) -> dict[str, object]:
    if not tolerance.value:
        return {"mustBe": 0}
    if tolerance.mode is ToleranceMode.PCT:
        return {"mustBeLessOrEqualTo": tolerance.value, "unit": "percent"}
    return {"mustBeLessOrEqualTo": int(tolerance.value)}
