"""Closed lists of the SQL guard that hold for every engine: parser nodes that read only, words of the grammar.

A node class that is not listed counts as mutating, so a new parser version can only make the guard stricter. What an
engine brings itself stands in its declaration (`SqlNames`).
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

WORDS_BEFORE_PARENTHESES: Final = words(
    """
    AGAINST ALL AND ANTI ANY ARRAY AS ASOF BETWEEN BY CASE COLUMNS CROSS CUBE DISTINCT DIV ELSE ESCAPE EXCEPT EXCLUDE
    EXISTS FETCH FILTER FINAL FOR FROM FULL GLOB GROUP HAVING ILIKE IN INDEX INNER INTERPOLATE INTERSECT IS JOIN KEY
    LATERAL LIKE LIMIT MATCH MATERIALIZED MINUS NATURAL NEXT NOT OFFSET ON OPTION OR OUTER OVER PARTITION PIVOT PREWHERE
    QUALIFY RECURSIVE REGEXP RENAME RLIKE ROLLUP SAMPLE SELECT SETS SOME SYMMETRIC THEN TOP UNION UNPIVOT USING VALUES
    WHEN WHERE WITH XOR
    """
)
"""Words of the grammar that may stand before a parenthesis. One that the parser takes for a function's name counts as
such."""

SAMPLING_METHODS: Final = words("BERNOULLI RESERVOIR SYSTEM")
