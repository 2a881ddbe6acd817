"""What PostgreSQL itself brings and what only reads: functions, operators and types of `pg_catalog`.

Functions are those that the catalogue calls immutable or stable, without the ones that implement operators, indexes or
types, read files, run text as SQL or take a transaction id. A test asks a server. Contract: HOOK-30.
"""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import words

STABLE: Final = words(
    """
    abbrev abs acos acosd acosh age area array_agg array_append array_cat array_dims array_fill array_length
    array_lower array_ndims array_position array_positions array_prepend array_remove array_replace
    array_to_json array_to_string array_to_tsvector array_upper ascii asin asind asinh atan atan2 atan2d atand
    atanh avg bit bit_and bit_count bit_length bit_or bit_xor bool bool_and bool_or box bpchar broadcast btrim
    cardinality cash_words cbrt ceil ceiling center char char_length character_length chr cidr circle
    col_description concat concat_ws convert convert_from convert_to corr cos cosd cosh cot cotd count covar_pop
    covar_samp cume_dist current_database current_schema current_schemas current_setting current_user date
    date_bin date_part date_trunc datemultirange daterange decode degrees dense_rank dexp diagonal diameter div
    encode enum_first enum_last enum_range every exp extract factorial family first_value float4 float8 floor
    format format_type gcd generate_series generate_subscripts get_bit get_byte get_current_ts_config
    getdatabaseencoding getpgusername has_column_privilege has_schema_privilege has_table_privilege hashtext
    height host hostmask inet_client_addr inet_client_port inet_server_addr inet_server_port initcap int2 int4
    int4multirange int4range int8 int8multirange int8range interval is_normalized isclosed isempty isfinite
    ishorizontal isopen isparallel isperp isvertical json_agg json_array_elements json_array_elements_text
    json_array_length json_build_array json_build_object json_each json_each_text json_object json_object_agg
    json_object_keys json_populate_record json_populate_recordset json_strip_nulls json_to_record
    json_to_recordset json_to_tsvector json_typeof jsonb_agg jsonb_array_elements jsonb_array_elements_text
    jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_insert jsonb_object
    jsonb_object_agg jsonb_object_keys jsonb_path_exists jsonb_path_exists_tz jsonb_path_match
    jsonb_path_match_tz jsonb_path_query jsonb_path_query_array jsonb_path_query_array_tz jsonb_path_query_first
    jsonb_path_query_first_tz jsonb_path_query_tz jsonb_populate_record jsonb_populate_recordset jsonb_pretty
    jsonb_set jsonb_set_lax jsonb_strip_nulls jsonb_to_record jsonb_to_recordset jsonb_to_tsvector jsonb_typeof
    justify_days justify_hours justify_interval lag last_value lcm lead left length like like_escape line ln log
    log10 lower lower_inc lower_inf lpad lseg ltrim macaddr macaddr8 macaddr8_set7bit make_date make_interval
    make_time make_timestamp make_timestamptz masklen max md5 min min_scale mod mode money multirange mxid_age
    name netmask network normalize notlike now npoints nth_value ntile num_nonnulls num_nulls numeric
    numeric_exp numeric_inc numeric_ln numeric_log numeric_sqrt nummultirange numnode numrange obj_description
    octet_length oid overlaps overlay parse_ident path pclose percent_rank percentile_cont percentile_disc
    pg_backend_pid pg_client_encoding pg_collation_for pg_column_size pg_conf_load_time pg_encoding_to_char
    pg_get_constraintdef pg_get_expr pg_get_indexdef pg_get_serial_sequence pg_get_userbyid pg_get_viewdef
    pg_has_role pg_lsn pg_postmaster_start_time pg_size_bytes pg_size_pretty pg_snapshot_xmax pg_snapshot_xmin
    pg_table_is_visible pg_timezone_names pg_typeof pg_visible_in_snapshot pg_wal_lsn_diff phraseto_tsquery pi
    plainto_tsquery point polygon popen position pow power querytree quote_ident quote_literal quote_nullable
    radians radius range_agg range_intersect_agg range_merge rank regclass regexp_count regexp_instr regexp_like
    regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace
    reverse right round row_number row_security_active row_to_json rpad rtrim scale session_user set_bit
    set_byte set_masklen setweight sha224 sha256 sha384 sha512 shobj_description sign similar_escape
    similar_to_escape sin sind sinh slope split_part sqrt starts_with statement_timestamp stddev stddev_pop
    stddev_samp string_agg string_to_array string_to_table strip strpos substr substring sum tan tand tanh text
    textlen time timestamp timestamptz timetz timezone to_ascii to_char to_date to_hex to_json to_jsonb
    to_number to_regclass to_regcollation to_regnamespace to_regoper to_regoperator to_regproc to_regprocedure
    to_regrole to_regtype to_timestamp to_tsquery to_tsvector transaction_timestamp translate trim_array
    trim_scale trunc ts_debug ts_delete ts_filter ts_headline ts_lexize ts_parse ts_rank ts_rank_cd
    ts_token_type tsmultirange tsquery_phrase tsrange tstzmultirange tstzrange tsvector_to_array unistr unnest
    upper upper_inc upper_inf var_pop var_samp varbit varchar variance version websearch_to_tsquery width
    width_bucket xid xml xml_is_well_formed xml_is_well_formed_content xml_is_well_formed_document xmlagg
    xmlcomment xmlexists xmlvalidate xpath xpath_exists
    """
)

VOLATILE: Final = words(
    """
    clock_timestamp gen_random_uuid pg_database_size pg_indexes_size pg_is_in_recovery pg_relation_size
    pg_table_size pg_total_relation_size random timeofday
    """
)
"""They answer differently each time and change nothing."""

_GRAMMAR: Final = words(
    """
    array cast coalesce current_time current_timestamp extract greatest grouping least localtime localtimestamp
    normalize nullif overlay position row substring treat trim xmlagg xmlconcat xmlelement xmlexists xmlforest
    xmlparse xmlpi xmlroot xmlserialize xmltable
    """
)
"""Written like functions, read by the grammar; some are no functions of the catalogue."""

_LATER: Final = words(
    """
    any_value array_sample array_shuffle erf erfc json_array json_arrayagg json_exists json_objectagg json_query
    json_scalar json_serialize json_table json_value random_normal to_bin to_oct xmltext
    """
)
"""Newer than PostgreSQL 15."""

FUNCTIONS: Final = STABLE | VOLATILE | _GRAMMAR | _LATER

OPERATORS: Final = words(
    """
    !! !~ !~* !~~ !~~* # ## #- #> #>> % & && &< &<| &> * *< *<= *<> *= *> *>= + - -> ->> -|- / < <-> << <<= <<|
    <= <> <@ <^ = > >= >> >>= >^ ? ?# ?& ?- ?-| ?| ?|| @ @-@ @> @? @@ @@@ ^ ^@ | |&> |/ |>> || ||/ ~ ~* ~<=~ ~<~
    ~= ~>=~ ~>~ ~~ ~~*
    """
)
"""Any other operator symbol is a user's."""

TYPES: Final = words(
    """
    array bigint bit bool boolean box bpchar bytea char character cid cidr circle date datemultirange daterange
    dec decimal double float float4 float8 inet int int2 int4 int4multirange int4range int8 int8multirange
    int8range integer interval json jsonb jsonpath line lseg macaddr macaddr8 money name national nchar numeric
    nummultirange numrange oid path pg_lsn pg_snapshot point polygon real regclass regcollation regconfig
    regdictionary regnamespace regoper regoperator regproc regprocedure regrole regtype smallint text tid time
    timestamp timestamptz timetz tsmultirange tsquery tsrange tstzmultirange tstzrange tsvector txid_snapshot
    uuid varbit varchar xid xid8 xml
    """
)
"""A cast to any other type may call a function of the user's."""
