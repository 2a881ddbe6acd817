"""The rules of an Open Data Contract (ODCS 3) as gates: what its schema demands of rows, its quality rules, freshness.

A rule becomes a gate that judges exactly what it says, or a finding that names it: none is dropped. What the standard
means for people alone (a rule of type text, an agreement about support or retention) is listed as not judged. Types are
not compared: the source and the sink decide them. Contract: GATE-36, GATE-37, GATE-38.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from dpone_core.authoring.validate import Finding, Path, closest
from dpone_core.model.vocabulary import GateType, Severity

if TYPE_CHECKING:
    from open_data_contract_standard.model import DataQuality, OpenDataContractStandard, SchemaObject, SchemaProperty

RULE_NOT_EXECUTABLE: Final = "DPONE_DATA_CONTRACT_RULE_NOT_EXECUTABLE"
OBJECT_UNKNOWN: Final = "DPONE_DATA_CONTRACT_OBJECT_UNKNOWN"
STAGED: Final = "{{ staged }}"
_OPERATORS: Final = {
    "mustBe": "=",
    "mustNotBe": "<>",
    "mustBeGreaterThan": ">",
    "mustBeGreaterOrEqualTo": ">=",
    "mustBeLessThan": "<",
    "mustBeLessOrEqualTo": "<=",
    "mustBeBetween": "BETWEEN",
    "mustNotBeBetween": "NOT BETWEEN",
}
_CONSTRAINTS: Final = frozenset(
    {
        *("minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("pattern", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "required"),
    }
)
_SEVERITIES: Final = {
    **dict.fromkeys(("error", "critical", "high"), Severity.ERROR),
    **dict.fromkeys(("warning", "warn", "medium", "low", "info"), Severity.WARNING),
}
_UNITS: Final = {
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3_600),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
}
_PLACEHOLDER: Final = re.compile(r"\$?\{(\w+)\}")
_OF_TABLE: Final = frozenset({"table", "object", "model", "schema"})
_OF_COLUMN: Final = frozenset({"column", "property", "field"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractGate:
    """One gate as a manifest would write it, and the path of its rule in the contract."""

    gate: dict[str, object]
    path: Path


@dataclass(slots=True, kw_only=True)
class ContractRules:
    """`findings` have paths in the contract. `not_judged` names what the contract says and no gate judges."""

    gates: list[ContractGate] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    not_judged: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Quoting:
    """How the sink's engine writes a name and a literal; None for one that runs no SQL."""

    dialect: str | None

    def name(self, text: str) -> str:
        from sqlglot import exp

        return str(exp.to_identifier(text, quoted=True).sql(dialect=self.dialect))

    def literals(self, values: Sequence[object]) -> str:
        from sqlglot import exp

        return ", ".join(exp.convert(value).sql(dialect=self.dialect) for value in values)


def rules_of(contract: OpenDataContractStandard, table: str, quoting: Quoting) -> ContractRules:
    """The gates of the object that describes `table`: the one of its name, or the only one."""
    rules = ContractRules()
    found = _object_of(contract, table, rules)
    if found is None:
        return rules
    index, described = found
    reader = _Reader(rules=rules, quoting=quoting, path=("schema", index), described=described)
    reader.read()
    reader.read_agreements(contract)
    return rules


def _object_of(contract: OpenDataContractStandard, table: str, rules: ContractRules) -> tuple[int, SchemaObject] | None:
    objects = contract.schema_ or []
    matching = [(index, one) for index, one in enumerate(objects) if table in (one.physicalName, one.name, *_last(one))]
    if len(matching) == 1:
        return matching[0]
    if len(objects) == 1 and not matching:
        return 0, objects[0]
    names = [name for one in objects if (name := one.physicalName or one.name)]
    guess = closest(table, names)
    rules.findings.append(
        Finding(
            code=OBJECT_UNKNOWN,
            message=f"the contract has {len(matching)} objects of the name {table!r}, of {len(objects)}",
            path=("schema",),
            fix=f"did you mean {guess!r}?" if guess else "give the object of the target table its name",
        )
    )
    return None


def _last(one: SchemaObject) -> tuple[str, ...]:
    return (one.physicalName.rpartition(".")[2],) if one.physicalName else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    rules: ContractRules
    quoting: Quoting
    path: Path
    described: SchemaObject

    def read(self) -> None:
        properties = self.described.properties or []
        keyed = sorted(((one.primaryKeyPosition or 0, index) for index, one in enumerate(properties) if one.primaryKey))
        if keyed:
            columns = [_column(properties[index]) for _, index in keyed]
            self.add(
                GateType.UNIQUE, "primary_key", (*self.path, "properties", keyed[0][1], "primaryKey"), columns=columns
            )
        for index, one in enumerate(properties):
            self._read_property(one, (*self.path, "properties", index))
        for index, rule in enumerate(self.described.quality or []):
            self._read_rule(rule, None, (*self.path, "quality", index))

    def _read_property(self, one: SchemaProperty, path: Path) -> None:
        column = _column(one)
        if one.required or one.primaryKey:
            at = (*path, "required") if one.required else (*path, "primaryKey")
            self.add(GateType.NOT_NULL, f"required:{column}", at, columns=[column])
        if one.unique:
            self.add(GateType.UNIQUE, f"unique:{column}", (*path, "unique"), columns=[column])
        if one.enum:
            values = [each.value for each in one.enum]
            self.add_values(f"enum:{column}", column, values, (*path, "enum"))
        for option in sorted(_CONSTRAINTS & set(one.logicalTypeOptions or {})):
            self.refuse(f"logicalTypeOptions.{option} of column {column!r}", (*path, "logicalTypeOptions", option))
        for index, rule in enumerate(one.quality or []):
            self._read_rule(rule, column, (*path, "quality", index))
        for name, below in _nested(one):
            if below.required or below.unique or below.quality or below.enum:
                self.refuse(f"a rule about a part of column {column!r}", (*path, *name))

    def _read_rule(self, rule: DataQuality, column: str | None, path: Path) -> None:
        name = rule.name or rule.id
        metric = rule.metric or rule.rule
        kind = rule.type or ("library" if metric else "text")
        about = f"{metric or kind}:{column}" if column else metric or kind
        if kind == "text":
            self.rules.not_judged.append(f"rule of type text: {name or rule.description or about}")
            return
        severity = _SEVERITIES.get((rule.severity or "error").lower())
        if severity is None:
            self.refuse(f"severity {rule.severity!r}", (*path, "severity"), "write error, warning or info")
            return
        gate = _Gate(reader=self, rule=rule, id=name or about, column=column, path=path, severity=severity)
        if kind == "sql":
            gate.from_statement()
        elif kind == "library":
            gate.from_metric(metric or "")
        else:
            self.refuse(f"a rule of type {kind}", (*path, "type"), "write it as sql, or as a metric of the standard")

    def read_agreements(self, contract: OpenDataContractStandard) -> None:
        for index, agreed in enumerate(contract.slaProperties or []):
            path: Path = ("slaProperties", index)
            if (agreed.property or "").lower() not in ("freshness", "fr"):
                self.rules.not_judged.append(f"service level {agreed.property}")
                continue
            element = agreed.element or contract.slaDefaultElement or ""
            described, _, column = element.rpartition(".")
            if described and described not in (self.described.name, self.described.physicalName):
                self.rules.not_judged.append(f"service level freshness of {described}")
                continue
            seconds = _seconds(agreed.value, agreed.unit)
            if not column or seconds is None:
                self.refuse(
                    "an agreement on freshness", path, "give a column as element, a whole value, and unit d, h, m or s"
                )
                continue
            fields = {"column": column, "max_age": f"PT{seconds}S", "reference": "now"}
            self.add(GateType.FRESHNESS, agreed.id or f"freshness:{column}", path, **fields)

    def add(self, kind: GateType, gate_id: str, path: Path, **fields: object) -> None:
        self.rules.gates.append(ContractGate(gate={"type": kind.value, "id": gate_id, **fields}, path=path))

    def add_values(self, gate_id: str, column: str, values: Sequence[object], path: Path, **fields: object) -> None:
        if not values or not all(isinstance(value, str | int | float | bool) for value in values):
            self.refuse(f"values of column {column!r} that are no texts, numbers or booleans", path)
            return
        fields = {"column": column, "values": list(values), "allow_null": True, **fields}
        self.add(GateType.ACCEPTED_VALUES, gate_id, path, **fields)

    def refuse(
        self, what: str, path: Path, fix: str = "remove it from the contract, or write it as a sql rule"
    ) -> None:
        self.rules.findings.append(
            Finding(code=RULE_NOT_EXECUTABLE, message=f"no gate judges {what}", path=path, fix=fix)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gate:
    """One quality rule on its way to a gate."""

    reader: _Reader
    rule: DataQuality
    id: str
    column: str | None
    path: Path
    severity: Severity

    def from_metric(self, metric: str) -> None:
        arguments = self.rule.arguments or {}
        match metric:
            case "nullValues" if self.column is not None:
                self._add_tolerant(GateType.NOT_NULL, columns=[self.column])
            case "missingValues" if self.column is not None:
                self._from_missing(self.column, arguments.get("missingValues", [None]))
            case "invalidValues" if self.column is not None and set(arguments) == {"validValues"}:
                tolerance = self._tolerance()
                if tolerance is not None:
                    listed = arguments["validValues"]
                    values = [value for value in listed if value is not None] if isinstance(listed, list) else []
                    self.reader.add_values(
                        self.id, self.column, values, self.path, **_given(tolerance), **self._severity()
                    )
            case "duplicateValues":
                self._from_duplicates(arguments)
            case "rowCount" if self.column is None:
                self._from_row_count()
            case _:
                self.reader.refuse(f"metric {metric!r} with these arguments", self.path)

    def _from_missing(self, column: str, missing: object) -> None:
        values = missing if isinstance(missing, list) else []
        texts = [value for value in values if value is not None]
        if not texts:
            self._add_tolerant(GateType.NOT_NULL, columns=[column])
            return
        if not all(isinstance(value, str | int) for value in texts) or self.reader.quoting.dialect is None:
            self.reader.refuse("these missing values", self.path)
            return
        name, listed = self.reader.quoting.name(column), self.reader.quoting.literals(texts)
        null = f"{name} IS NULL OR " if None in values else ""
        sql = f"SELECT count(*) FROM {STAGED} WHERE {null}{name} IN ({listed})"
        self._add_tolerant(GateType.CUSTOM_SQL, sql=sql)

    def _from_duplicates(self, arguments: Mapping[str, Any]) -> None:
        columns = [self.column] if self.column is not None else arguments.get("properties")
        if not isinstance(columns, list) or not columns or not all(isinstance(one, str) for one in columns):
            self.reader.refuse("duplicates without columns", self.path, "list them as arguments.properties")
        elif self._operator() == ("mustBe", 0) or self._operator() == ("mustBeLessOrEqualTo", 0):
            self.reader.add(GateType.UNIQUE, self.id, self.path, columns=columns, **self._severity())
        else:
            self.reader.refuse("a number of duplicates that are allowed", self.path, "write mustBe: 0")

    def _from_row_count(self) -> None:
        operator, value = self._operator()
        least = {"mustBeGreaterThan": 1, "mustBeGreaterOrEqualTo": 0}.get(operator)
        if least is not None and isinstance(value, int):
            threshold = max(value + least, 0)
            self.reader.add(GateType.MIN_ROWS, self.id, self.path, threshold=threshold, **self._severity())
        else:
            self._add_comparison(f"SELECT count(*) FROM {STAGED}", operator, value)

    def from_statement(self) -> None:
        text = (self.rule.query or "").strip().rstrip(";")
        unknown = [name for name in _PLACEHOLDER.findall(text) if name not in _OF_TABLE | _OF_COLUMN]
        of_column = any(name in _OF_COLUMN for name in _PLACEHOLDER.findall(text))
        if unknown or (of_column and self.column is None):
            self.reader.refuse(
                "a statement with these placeholders", (*self.path, "query"), "write ${table}, ${column}"
            )
            return
        sql = _PLACEHOLDER.sub(self._named, text)
        operator, value = self._operator()
        most = _most_rows(operator, value)
        if most is not None and (self.rule.unit or "rows") == "rows":
            tolerance = {"tolerance": {"mode": "absolute", "value": most}} if most else {}
            self.reader.add(GateType.CUSTOM_SQL, self.id, self.path, sql=sql, **tolerance, **self._severity())
        else:
            self._add_comparison(sql, operator, value)

    def _named(self, found: re.Match[str]) -> str:
        return STAGED if found[1] in _OF_TABLE else self.reader.quoting.name(self.column or "")

    def _add_comparison(self, sql: str, operator: str, value: object) -> None:
        """One row breaks the rule where the number is another one than the rule wants."""
        wanted = value if isinstance(value, list) else [value]
        exact = [text for one in wanted if (text := _number(one)) is not None]
        if operator not in _OPERATORS or len(exact) != len(wanted) or len(exact) != 1 + operator.endswith("Between"):
            self.reader.refuse(
                "a rule without one comparison with numbers", self.path, "write one of mustBe, mustBe..."
            )
            return
        condition = f"{_OPERATORS[operator]} {' AND '.join(exact)}"
        compared = f"SELECT CASE WHEN (\n{sql}\n) {condition} THEN 0 ELSE 1 END"
        self.reader.add(GateType.CUSTOM_SQL, self.id, self.path, sql=compared, **self._severity())

    def _add_tolerant(self, kind: GateType, **fields: object) -> None:
        tolerance = self._tolerance()
        if tolerance is not None:
            self.reader.add(kind, self.id, self.path, **fields, **_given(tolerance), **self._severity())

    def _tolerance(self) -> dict[str, object] | None:
        """How many rows may break the rule; None after a finding."""
        operator, value = self._operator()
        percent = (self.rule.unit or "rows").lower() in ("percent", "%")
        if percent and operator in ("mustBe", "mustBeLessOrEqualTo") and _number(value) is not None:
            share = float(str(value))
            if 0 <= share <= 100 and (operator != "mustBe" or share == 0):
                return {"mode": "pct", "value": share}
        most = None if percent else _most_rows(operator, value)
        if most is None:
            self.reader.refuse(
                "another limit than so many rows at most", self.path, "write mustBe: 0 or mustBeLessOrEqualTo"
            )
            return None
        return {"mode": "absolute", "value": most}

    def _operator(self) -> tuple[str, object]:
        given = [(name, value) for name in _OPERATORS if (value := getattr(self.rule, name)) is not None]
        return given[0] if len(given) == 1 else ("", None)

    def _severity(self) -> dict[str, object]:
        return {} if self.severity is Severity.ERROR else {"severity": self.severity.value}


def _given(tolerance: dict[str, object]) -> dict[str, object]:
    return {"tolerance": tolerance} if tolerance["value"] else {}


def _most_rows(operator: str, value: object) -> int | None:
    """The greatest number of rows that the comparison allows; None for one that is no such limit."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    if operator == "mustBe":
        return 0 if value == 0 else None
    if operator == "mustBeLessThan":
        return value - 1 if value > 0 else None
    return value if operator == "mustBeLessOrEqualTo" else None


def _number(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return str(value) if isinstance(value, int) else format(Decimal(repr(value)), "f")


def _seconds(value: object, unit: str | None) -> int | None:
    size = _UNITS.get((unit or "").lower())
    if size is None or isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return None
    return value * size


def _column(one: SchemaProperty) -> str:
    return one.physicalName or one.name or ""


def _nested(one: SchemaProperty) -> Iterator[tuple[Path, SchemaProperty]]:
    for index, below in enumerate(one.properties or []):
        yield ("properties", index), below
        for path, deeper in _nested(below):
            yield ("properties", index, *path), deeper
    if one.items is not None:
        yield ("items",), one.items
        for path, deeper in _nested(one.items):
            yield ("items", *path), deeper
