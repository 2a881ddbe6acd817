"""What the PostgreSQL source and sink promise, as plain data for planning."""

from __future__ import annotations

from typing import Final

from dpone_core.declared.functions import postgres as names
from dpone_core.model.connector import (
    SQL_NAME,
    ConnectorDescriptor,
    ConnectorType,
    Finaliser,
    SinkTraits,
    SourceTraits,
    SqlNames,
    SqlSyntax,
    SqlTraits,
)
from dpone_core.model.special_values import SpecialValue
from dpone_core.model.vocabulary import LoadPath, RetryClassification, StrategyMode

_DELIVERY: Final = (
    "one publication per load id: its marker is written in the same transaction and looked at before any repetition"
)
MAX_COLUMNS: Final = 1600
_OWNER: Final = "the role owns the target"

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.POSTGRES,
    sql=SqlTraits(
        dialect="postgres",
        syntax=frozenset({SqlSyntax.DOLLAR_QUOTES, SqlSyntax.ATTRIBUTES_CALL}),
        maintenance=rf"(VACUUM(\s+FULL)?(\s+ANALYZE)?|ANALYZE)(\s+{SQL_NAME})?",
        names=SqlNames(
            functions=names.FUNCTIONS,
            schemas=frozenset({"pg_catalog"}),
            operators=names.OPERATORS,
            types=names.TYPES,
        ),
    ),
    extra="postgres",
    uri_schemes=("postgresql", "postgres"),
    libraries=("pyarrow", "adbc_driver_postgresql", "psycopg"),
    source=SourceTraits(
        reader="adbc",
        metric_probe=True,
        statements=True,
        incremental=True,
        key_ranges=True,
        special_values=(SpecialValue.INFINITY, SpecialValue.NEGATIVE_INFINITY, SpecialValue.NAN),
        row_security=True,
    ),
    sink=SinkTraits(
        load_path=LoadPath.STAGED,
        finalisers=(
            Finaliser(
                strategy=StrategyMode.FULL_REFRESH,
                name="swap_or_replace_in_transaction",
                atomic_for="whole target: one transaction",
                delivery=_DELIVERY,
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=(_OWNER, "a target with anything attached to it has the source's columns"),
            ),
            Finaliser(
                strategy=StrategyMode.INCREMENTAL_APPEND,
                name="insert_in_transaction",
                atomic_for="whole load: one transaction",
                delivery=_DELIVERY,
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=(_OWNER,),
            ),
            Finaliser(
                strategy=StrategyMode.INCREMENTAL_MERGE,
                name="merge_in_transaction",
                atomic_for="whole load: one transaction",
                delivery=_DELIVERY,
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=(_OWNER, "the target holds each key once"),
            ),
            Finaliser(
                strategy=StrategyMode.PARTITION_REPLACE,
                name="replace_partitions_in_transaction",
                atomic_for="whole load: one transaction deletes the staged partitions and inserts the staged rows",
                delivery=_DELIVERY,
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=(_OWNER,),
            ),
        ),
        metric_probe=True,
        identifier_limit_bytes=63,
        memory_limit_bytes=None,
        default_schema="public",
        column_defaults=True,
        max_columns=MAX_COLUMNS,
        key_ranges=True,
    ),
)
