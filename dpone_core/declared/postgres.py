"""What the PostgreSQL source and sink promise, as plain data for planning."""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import (
    SQL_NAME,
    ConnectorDescriptor,
    ConnectorType,
    Finaliser,
    SinkTraits,
    SourceTraits,
    SqlSyntax,
    SqlTraits,
    words,
)
from dpone_core.model.special_values import SpecialValue
from dpone_core.model.vocabulary import LoadPath, RetryClassification, StrategyMode

_DELIVERY: Final = "exactly once: the load marker is written in the same transaction"
MAX_COLUMNS: Final = 1600
_OWNER: Final = "the role owns the target"
_READING_FUNCTIONS: Final = words(
    """
    jsonb_agg json_agg jsonb_build_object json_build_object jsonb_object_agg json_object_agg to_json to_jsonb
    row_to_json age clock_timestamp statement_timestamp date_bin make_date make_timestamp make_interval
    isfinite justify_days justify_hours justify_interval octet_length bit_length num_nulls num_nonnulls
    regexp_matches regexp_split_to_array regexp_split_to_table array_to_string string_to_array cardinality
    unnest mode percentile_cont percentile_disc bool_and bool_or every pg_typeof quote_ident quote_literal format
    """
)

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.POSTGRES,
    sql=SqlTraits(
        dialect="postgres",
        syntax=frozenset({SqlSyntax.DOLLAR_QUOTES}),
        maintenance=rf"(VACUUM(\s+FULL)?(\s+ANALYZE)?|ANALYZE)(\s+{SQL_NAME})?",
        functions=_READING_FUNCTIONS,
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
