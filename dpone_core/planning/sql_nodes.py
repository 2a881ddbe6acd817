"""Closed lists of the SQL guard that hold for every engine: parser nodes that read only, functions that act.

A node class that is not listed counts as mutating, so a new parser version can only make the guard stricter. What one
engine's functions may do stands in its declaration (`SqlTraits`).
"""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import words

ALLOWED_NODES: Final = words(
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

EFFECT_FUNCTION_NODES: Final = words(
    """
    AIAgg AIClassify AIEmbed AIForecast AIGenerate AISimilarity AISummarizeAgg NextValueFor Seq1 Seq2 Seq4 Seq8 ToFile
    """
)

EFFECT_FUNCTIONS: Final = words(
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
