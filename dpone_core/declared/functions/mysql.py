"""What MySQL and MariaDB themselves bring and what only reads. `last_insert_id`, locks, waits, files and sequences are
not here. A test asks a server. Contract: HOOK-30.
"""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import words

BOTH: Final = words(
    """
    abs acos adddate addtime aes_decrypt aes_encrypt ascii asin atan atan2 avg bin bit_and bit_count bit_length
    bit_or bit_xor cast ceil ceiling char char_length character_length charset coalesce coercibility collation
    compress concat concat_ws connection_id conv convert convert_tz cos cot count crc32 cume_dist curdate
    current_date current_time current_timestamp current_user curtime database date date_add date_format date_sub
    datediff day dayname dayofmonth dayofyear default degrees dense_rank elt exists exp export_set extract
    extractvalue field find_in_set first_value floor format from_base64 from_days from_unixtime get_format
    greatest group_concat hex hour if ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr interval
    is_ipv4 is_ipv6 isnull json_array json_array_append json_array_insert json_arrayagg json_contains
    json_contains_path json_depth json_extract json_insert json_keys json_length json_merge_patch
    json_merge_preserve json_object json_objectagg json_pretty json_quote json_remove json_replace json_search
    json_set json_table json_type json_unquote json_valid lag last_day last_value lcase lead least left length
    ln locate log log10 log2 lower lpad ltrim make_set makedate maketime max md5 microsecond mid min minute mod
    month monthname name_const now nth_value ntile nullif oct octet_length ord percent_rank period_add
    period_diff pi position pow power quarter quote radians rand rank regexp_instr regexp_replace regexp_substr
    repeat replace reverse right round row row_count row_number rpad rtrim schema sec_to_time second
    session_user sha sha1 sha2 sign sin soundex space sqrt std stddev stddev_pop stddev_samp str_to_date strcmp
    subdate substr substring substring_index subtime sum sysdate system_user tan time time_format time_to_sec
    timediff timestamp timestampadd timestampdiff to_base64 to_days to_seconds trim truncate ucase uncompress
    uncompressed_length unhex unix_timestamp updatexml upper user utc_date utc_time utc_timestamp uuid
    uuid_short values var_pop var_samp variance version week weekday weekofyear weight_string year yearweek
    """
)

_MYSQL: Final = words(
    """
    any_value bin_to_uuid format_bytes format_pico_time grouping is_uuid json_overlaps json_schema_valid
    json_schema_validation_report json_storage_free json_storage_size random_bytes regexp_like st_area
    st_asbinary st_astext st_aswkb st_aswkt st_contains st_distance st_geomfromtext st_geomfromwkb st_intersects
    st_length st_srid st_within st_x st_y statement_digest statement_digest_text uuid_to_bin
    """
)
"""Of MySQL 8; some of them of MariaDB as well."""

_MARIADB: Final = words(
    """
    add_months chr dayofweek json_compact json_detailed json_equals json_exists json_loose json_normalize
    json_query json_value lengthb median natural_sort_key nvl nvl2 percentile_cont percentile_disc sformat
    to_char
    """
)

FUNCTIONS: Final = BOTH | _MYSQL | _MARIADB

TABLE_FUNCTIONS: Final = words(
    """
    json_table
    """
)
