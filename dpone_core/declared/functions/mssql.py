"""What SQL Server itself brings and what only reads, T-SQL of 2016 to 2025. `OPENQUERY` and its kin reach another
system, and sequences move. Contract: HOOK-30.
"""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import words

FUNCTIONS: Final = words(
    """
    abs acos app_name approx_count_distinct approx_percentile_cont approx_percentile_disc ascii asin atan atn2
    avg base64_decode base64_encode binary_checksum bit_count cast ceiling char charindex checksum checksum_agg
    choose coalesce col_length col_name collationproperty columnproperty compress concat concat_ws contains
    convert cos cot count count_big cume_dist current_date current_timestamp current_timezone
    current_timezone_id current_user databasepropertyex datalength date_bucket dateadd datediff datediff_big
    datefromparts datename datepart datetime2fromparts datetimefromparts datetimeoffsetfromparts datetrunc day
    db_id db_name decompress degrees dense_rank difference edit_distance edit_distance_similarity eomonth
    error_number exists exp first_value floor format formatmessage freetext get_bit getdate getutcdate greatest
    grouping grouping_id has_dbaccess has_perms_by_name hashbytes host_id host_name iif indexproperty is_member
    is_rolemember is_srvrolemember isdate isjson isnull isnumeric jaro_winkler_distance jaro_winkler_similarity
    json_array json_arrayagg json_contains json_modify json_object json_objectagg json_path_exists json_query
    json_value lag last_value lead least left left_shift len log log10 lower ltrim max min month nchar newid
    ntile nullif object_definition object_id object_name object_schema_name objectproperty objectpropertyex
    original_login parse parsename patindex percent_rank percentile_cont percentile_disc pi power product
    quotename radians rand rank regexp_count regexp_instr regexp_like regexp_replace regexp_substr replace
    replicate reverse right right_shift round row_number rowcount_big rtrim schema_id schema_name scope_identity
    serverproperty session_context session_user set_bit sign sin smalldatetimefromparts soundex space
    sql_variant_property sqrt square stats_date stdev stdevp str string_agg string_escape stuff substring sum
    suser_id suser_name suser_sname switchoffset sysdatetime sysdatetimeoffset system_user sysutcdatetime tan
    timefromparts todatetimeoffset translate trim try_cast try_convert try_parse type_id type_name unicode
    unistr upper user_id user_name var varp vector_distance vector_norm vector_normalize vectorproperty
    xact_state year
    """
)

TABLE_FUNCTIONS: Final = words(
    """
    containstable freetexttable generate_series openjson regexp_matches regexp_split_to_table string_split
    """
)

METHODS: Final = words(
    """
    asgml astextzm exist getancestor getlevel isdescendantof lat long nodes query starea stasbinary stastext
    stcontains stdistance stintersects stlength stsrid stwithin stx sty tostring value
    """
)
"""Methods of the types xml, hierarchyid, geometry and geography; `modify` is not one of them."""
