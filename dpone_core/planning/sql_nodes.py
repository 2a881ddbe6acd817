"""Closed lists of the SQL guard: parser nodes and functions that are known to read only.

A node class or a function that is not listed counts as mutating, so a new parser version can only make the guard
stricter.
"""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import ConnectorType


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALLOWED_NODES: Final = _words(
    """
    Add Adjacent Alias Aliases All Any AtTimeZone Between Binary BitString BitwiseAnd BitwiseLeftShift BitwiseNot
    BitwiseOr BitwiseRightShift BitwiseXor Boolean Bracket ByteString CTE CharacterSet Collate Column ColumnDef
    Cube DPipe DataType DataTypeParam DerivedTable Distance Distinct Div Dot EQ Escape Except Fetch Filter Final
    ForClause From FromTimeZone GT GTE Glob Group GroupingSets Having HavingMax HexString ILike Identifier IgnoreNulls
    In IntDiv Intersect Interval IntervalOp IntervalSpan Is JSON JSONColumnDef JSONKeyValue JSONPath JSONPathFilter
    JSONPathKey JSONPathPart JSONPathRecursive JSONPathRoot JSONPathScript JSONPathSelector JSONPathSlice
    JSONPathSubscript JSONPathUnion JSONPathWildcard JSONSchema Join Kwarg LT LTE Lambda Lateral Like Limit
    LimitOptions Literal Match Mod Mul NEQ National Neg Not Null NullSafeEQ NullSafeNEQ Offset OnCondition
    OpenJSONColumnDef Order Ordered Overlaps Paren Pivot PivotAlias PivotAny Placeholder PreWhere Pseudocolumn Qualify
    QueryOption RawString RespectNulls Rollup Select SimilarTo Slice Sort Star Sub Subquery Table TableAlias
    TableColumn TableSample Tuple UnicodeString Union Values Var Variadic Version Where Window WindowSpec With WithFill
    WithTableHint WithinGroup
    """
)

EFFECT_FUNCTION_NODES: Final = _words(
    """
    AIAgg AIClassify AIEmbed AIForecast AIGenerate AISimilarity AISummarizeAgg NextValueFor Seq1 Seq2 Seq4 Seq8 ToFile
    """
)

EFFECT_FUNCTIONS: Final = _words(
    """
    openquery openrowset opendatasource
    nextval setval lastval currval pg_notify pg_terminate_backend pg_cancel_backend pg_advisory_lock dblink dblink_exec
    lo_import lo_export lo_create lo_unlink pg_read_file pg_write_file set_config
    load_extension writefile readfile edit fts3_tokenizer
    sleep benchmark get_lock release_lock release_all_locks load_file sys_exec sys_eval
    executable executablepool sleepeachrow throwif
    query query_table duckdb_execute getenv
    """
)

ALLOWED_FUNCTIONS: Final = {
    ConnectorType.POSTGRES: _words(
        """
        jsonb_agg json_agg jsonb_build_object json_build_object jsonb_object_agg json_object_agg to_json to_jsonb
        row_to_json age clock_timestamp statement_timestamp date_bin make_date make_timestamp make_interval
        isfinite justify_days justify_hours justify_interval octet_length bit_length num_nulls num_nonnulls
        regexp_matches regexp_split_to_array regexp_split_to_table array_to_string string_to_array cardinality
        unnest mode percentile_cont percentile_disc bool_and bool_or every pg_typeof quote_ident quote_literal format
        """
    ),
    ConnectorType.MYSQL: _words(
        """
        json_unquote json_contains json_length json_keys json_type json_valid makedate maketime period_add period_diff
        sec_to_time time_to_sec to_seconds microsecond inet_aton inet_ntoa inet6_aton inet6_ntoa bit_count crc32
        elt field find_in_set make_set export_set bin_to_uuid uuid_to_bin
        """
    ),
}
"""Engines whose functions may mutate: an unlisted or schema-qualified function is not provably harmless there."""

_DUCKDB_TABLES: Final = _words(
    """
    arrow_scan delta_scan duckdb_columns duckdb_schemas duckdb_tables duckdb_views generate_series glob iceberg_scan
    json_each json_tree parquet_metadata parquet_scan parquet_schema range read_blob read_csv read_csv_auto read_json
    read_json_auto read_ndjson read_ndjson_auto read_parquet read_text repeat repeat_row unnest
    """
)
ALLOWED_TABLE_FUNCTIONS: Final = {
    ConnectorType.SQLITE: _words(
        """
        generate_series json_each json_tree pragma_foreign_key_list pragma_index_info pragma_index_list
        pragma_table_info pragma_table_list pragma_table_xinfo
        """
    ),
    ConnectorType.CLICKHOUSE: _words(
        """
        cluster clusterallreplicas dictionary file generate_series generateseries merge null numbers numbers_mt values
        view zeros zeros_mt
        """
    ),
    ConnectorType.DUCKDB: _DUCKDB_TABLES,
    ConnectorType.FILES: _DUCKDB_TABLES,
}
"""Engines whose table functions may reach other systems, with credentials in their arguments: others are refused."""

STATEMENT_WORDS: Final = _words(
    """
    ADD ALTER BACKUP BEGIN BREAK BULK CHECKPOINT CLOSE COMMIT CONTINUE CREATE DBCC DEALLOCATE DECLARE DELETE DENY
    DISABLE DROP DUMP ENABLE END EXEC EXECUTE FETCH GET GO GOTO GRANT IF INSERT KILL LOAD MERGE OPEN PRINT RAISERROR
    READTEXT RECEIVE RECONFIGURE RESTORE RETURN REVERT REVOKE ROLLBACK SAVE SEND SET SETUSER SHUTDOWN THROW TRUNCATE
    UPDATE UPDATETEXT USE WAITFOR WHILE WRITETEXT
    """
)
"""T-SQL runs a second statement without any separator: `SELECT a FROM t RECONFIGURE` is two."""
