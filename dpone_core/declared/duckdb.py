"""What the DuckDB sink guarantees, as plain data for planning."""

from __future__ import annotations

from typing import Final

from dpone_core.declared.functions import duckdb as names
from dpone_core.model.connector import (
    SQL_NAME,
    ConnectorDescriptor,
    ConnectorType,
    EmbeddedTraits,
    EngineScope,
    Finaliser,
    SinkTraits,
    SourceTraits,
    SqlNames,
    SqlSyntax,
    SqlTraits,
)
from dpone_core.model.special_values import SpecialValue
from dpone_core.model.vocabulary import LoadPath, RetryClassification, StrategyMode

MEMORY_LIMIT_BYTES: Final = 2 * 1024**3
"""For statements that hold much at once: merges, exact distinct counts, hooks, sources."""

STREAMING_LIMIT_BYTES: Final = 640 << 20
"""For everything else a sink does: rows pass through, and blocks that are cached beyond it give way."""

_DELIVERY: Final = (
    "one publication per load id: its marker is written in the same transaction and looked at before any repetition"
)

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.DUCKDB,
    sql=SqlTraits(
        dialect="duckdb",
        syntax=frozenset({SqlSyntax.DOLLAR_QUOTES}),
        maintenance=rf"(VACUUM|ANALYZE|VACUUM\s+ANALYZE)(\s+{SQL_NAME})?",
        names=SqlNames(
            functions=names.FUNCTIONS,
            table_functions=names.TABLE_FUNCTIONS,
            file_functions=names.FILE_FUNCTIONS,
        ),
    ),
    extra="duckdb",
    uri_schemes=("duckdb",),
    libraries=("pyarrow", "duckdb"),
    embedded=EmbeddedTraits(uri_schemes=("duckdb",)),
    source=SourceTraits(
        reader="arrow stream",
        metric_probe=True,
        statements=True,
        incremental=True,
        key_ranges=True,
        special_values=(SpecialValue.INFINITY, SpecialValue.NEGATIVE_INFINITY, SpecialValue.NAN),
        engine=EngineScope.FILE,
    ),
    sink=SinkTraits(
        load_path=LoadPath.STAGED,
        finalisers=(
            Finaliser(
                strategy=StrategyMode.FULL_REFRESH,
                name="swap_in_transaction",
                atomic_for="whole target: one transaction",
                delivery=_DELIVERY,
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=("no constraint or index on the target",),
            ),
            Finaliser(
                strategy=StrategyMode.INCREMENTAL_APPEND,
                name="insert_in_transaction",
                atomic_for="whole load: one transaction",
                delivery=_DELIVERY,
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
            ),
            Finaliser(
                strategy=StrategyMode.INCREMENTAL_MERGE,
                name="merge_in_transaction",
                atomic_for="whole load: one transaction",
                delivery=_DELIVERY,
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=("the target holds each key once",),
            ),
            Finaliser(
                strategy=StrategyMode.PARTITION_REPLACE,
                name="replace_in_transaction",
                atomic_for="whole load: one transaction deletes the staged partitions and inserts the staged rows",
                delivery=_DELIVERY,
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
            ),
        ),
        metric_probe=True,
        key_ranges=True,
        identifier_limit_bytes=206,
        memory_limit_bytes=MEMORY_LIMIT_BYTES,
        default_schema="main",
        column_defaults=True,
    ),
)
