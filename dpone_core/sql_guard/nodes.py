"""Closed lists of the SQL guard that hold for every engine: parser nodes that read only, words of the grammar.

A node class that is not listed counts as mutating, so a new parser version can only make the guard stricter. What an
engine brings itself stands in its declaration (`SqlNames`).
"""

from __future__ import annotations

from collections.abc import Mapping
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

STATEMENT_WORDS: Final = words(
    """
    ALTER ANALYZE ATTACH BACKUP BEGIN BULK CALL CHECK CHECKPOINT CLOSE CLUSTER COMMENT COMMIT COPY CREATE DBCC
    DEALLOCATE DECLARE DELETE DENY DESC DESCRIBE DETACH DISABLE DISCARD DO DROP ENABLE END EXCHANGE EXEC EXECUTE
    EXISTS EXPLAIN EXPORT FETCH FLUSH FORCE GRANT HANDLER HELP IF IMPORT INSERT INSTALL KILL LISTEN LOAD LOCK
    MERGE MOVE NOTIFY OPEN OPTIMIZE PIVOT PRAGMA PREPARE PRINT PURGE RAISERROR REASSIGN RECONFIGURE REFRESH
    REINDEX RELEASE RENAME REPAIR REPLACE RESET RESTORE RETURN REVERT REVOKE ROLLBACK SAVE SAVEPOINT SECURITY
    SET SHOW SHUTDOWN START STOP SUMMARIZE SYSTEM TABLE THROW TRUNCATE UNDROP UNINSTALL UNLISTEN UNLOCK UNPIVOT
    UPDATE USE VACUUM VALUES WAITFOR WATCH WHILE XA
    """
)
"""Words that begin a statement. A message shows one of these, never another word of a text."""

PART_WORDS: Final[Mapping[str, str]] = {
    "Into": "INTO, which writes what it reads",
    "Lock": "a clause that locks rows",
    "NextValueFor": "NEXT VALUE FOR",
    "Operator": "OPERATOR(), which may call a user's operator",
    "Parameter": "a variable",
    "PropertyEQ": "an assignment to a variable",
    "SessionParameter": "a variable of the session",
}
"""What a person calls a part that the parser has a name of its own for."""

RESERVED_WORDS: Final = words(
    """
    ALL AND AS BETWEEN BY CASE DISTINCT ELSE EXCEPT EXISTS FETCH FOR FROM GROUP HAVING IN INTERSECT LIMIT NOT ON OR
    ORDER SELECT THEN UNION USING VALUES WHEN WHERE WITH
    """
)
"""Words before a parenthesis that no engine takes for a function's name."""

WORDS_BEHIND_OPERANDS: Final = words(
    """
    AGAINST ANTI ASOF DIV ESCAPE EXCLUDE FILTER FINAL GLOB ILIKE INTERPOLATE IS JOIN KEY LATERAL LIKE
    MATERIALIZED MINUS NATURAL NEXT OFFSET OPTION OVER PARTITION PIVOT PREWHERE QUALIFY RECURSIVE REGEXP RENAME RLIKE
    SAMPLE SYMMETRIC UNPIVOT XOR ZONE
    """
)
"""Before a parenthesis they are grammar behind an operand, a table or a query; elsewhere they may be functions."""

EXPRESSIONS_BEGIN_BEHIND: Final = words(
    """
    ALL AND ANY BETWEEN BY CASE COLLATE DISTINCT DIV ELSE ESCAPE EXISTS FROM GLOB HAVING ILIKE IN INTERVAL LIKE LIMIT
    MOD OFFSET ON OR PREWHERE QUALIFY REGEXP RETURNING RLIKE SELECT SOME THEN TO TOP USING VALUES WHEN WHERE XOR
    """
)

GROUPINGS: Final = words("CUBE ROLLUP SETS")
QUANTIFIERS: Final = words("ANY SOME")
SAMPLING_METHODS: Final = words("BERNOULLI RESERVOIR SYSTEM")
PREFIX_WORDS: Final = words("COLUMNS INDEX MATCH TOP")
"""Words that begin an expression in some engines. Where they name a function, the parser sees one."""
