"""What SQLite itself brings and what only reads. A test asks the library. Contract: HOOK-30."""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import words

BUILT_IN: Final = words(
    """
    abs acos acosh asin asinh atan atan2 atanh avg bm25 cast ceil ceiling changes char coalesce cos cosh count
    cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp first_value floor
    format glob group_concat hex highlight ifnull iif instr json json_array json_array_length json_extract
    json_group_array json_group_object json_insert json_object json_patch json_quote json_remove json_replace
    json_set json_type json_valid julianday lag last_insert_rowid last_value lead length like likelihood likely
    ln log log10 log2 lower ltrim max min mod nth_value ntile nullif percent_rank pi pow power printf quote
    radians random randomblob rank replace round row_number rtrim sign sin sinh snippet soundex sqlite_source_id
    sqlite_version sqrt strftime substr substring sum tan tanh time total total_changes trim trunc typeof
    unicode unixepoch unlikely upper zeroblob
    """
)

_LATER: Final = words(
    """
    concat concat_ws if json_error_position json_pretty jsonb jsonb_array jsonb_extract jsonb_group_array
    jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set median
    octet_length percentile percentile_cont percentile_disc string_agg timediff unhex unistr unistr_quote
    """
)
"""Newer than SQLite 3.40, or compiled in by some."""

FUNCTIONS: Final = BUILT_IN | _LATER

TABLE_FUNCTIONS: Final = words(
    """
    generate_series json_each json_tree pragma_foreign_key_list pragma_index_info pragma_index_list
    pragma_table_info pragma_table_list pragma_table_xinfo
    """
)
