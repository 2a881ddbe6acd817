"""The question what hangs on a table of PostgreSQL, and a table in its place would not have."""

from __future__ import annotations

from typing import Final

ATTACHED_SQL: Final = """
WITH target AS (SELECT * FROM pg_catalog.pg_class WHERE oid = $1), attached(what) AS (
    SELECT CASE d.classid
        WHEN 'pg_catalog.pg_class'::regclass THEN
            CASE WHEN other.relkind IN ('i', 'I') THEN 'an index' WHEN other.relkind = 'S' THEN 'a sequence'
                ELSE 'another table' END
        WHEN 'pg_catalog.pg_constraint'::regclass THEN
            CASE WHEN k.conrelid <> $1 THEN 'a foreign key of another table' ELSE 'a constraint' END
        WHEN 'pg_catalog.pg_trigger'::regclass THEN 'a trigger'
        WHEN 'pg_catalog.pg_rewrite'::regclass THEN 'a view or rule'
        WHEN 'pg_catalog.pg_policy'::regclass THEN 'a policy'
        WHEN 'pg_catalog.pg_publication_rel'::regclass THEN 'a publication'
        WHEN 'pg_catalog.pg_attrdef'::regclass THEN 'a column default'
        WHEN 'pg_catalog.pg_statistic_ext'::regclass THEN 'extended statistics'
        ELSE 'a dependent object' END
    FROM pg_catalog.pg_depend AS d
        LEFT JOIN pg_catalog.pg_constraint AS k
            ON d.classid = 'pg_catalog.pg_constraint'::regclass AND k.oid = d.objid
        LEFT JOIN pg_catalog.pg_class AS other ON d.classid = 'pg_catalog.pg_class'::regclass AND other.oid = d.objid
    WHERE d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = $1 AND d.deptype <> 'i'
        AND k.contype IS DISTINCT FROM 'n'
    UNION SELECT 'a use of its row type' FROM pg_catalog.pg_depend AS d, target
        WHERE d.refclassid = 'pg_catalog.pg_type'::regclass AND d.refobjid = target.reltype AND d.deptype <> 'i'
    UNION SELECT 'partitions or inheritance' FROM target WHERE relkind = 'p' OR relispartition
    UNION SELECT 'partitions or inheritance' FROM pg_catalog.pg_inherits WHERE $1 IN (inhrelid, inhparent)
    UNION SELECT 'grants' FROM target WHERE relacl IS NOT NULL
    UNION SELECT 'storage options' FROM target WHERE reloptions IS NOT NULL OR reltablespace <> 0
    UNION SELECT 'row level security' FROM target WHERE relrowsecurity OR relforcerowsecurity
    UNION SELECT 'a replica identity' FROM target WHERE relreplident <> 'd'
    UNION SELECT 'no logging' FROM target WHERE relpersistence <> 'p'
    UNION SELECT 'another owner' FROM target WHERE pg_catalog.pg_get_userbyid(relowner) <> current_user
    UNION SELECT 'column comments' FROM pg_catalog.pg_description
        WHERE classoid = 'pg_catalog.pg_class'::regclass AND objoid = $1 AND objsubid > 0
    UNION SELECT 'security labels' FROM pg_catalog.pg_seclabel
        WHERE classoid = 'pg_catalog.pg_class'::regclass AND objoid = $1
    UNION SELECT CASE WHEN attidentity <> '' THEN 'an identity column' WHEN attacl IS NOT NULL THEN 'grants'
            ELSE 'column settings' END
        FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
        WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped
            AND (attidentity <> '' OR attacl IS NOT NULL OR attcollation <> typcollation
                OR EXISTS (SELECT FROM pg_catalog.unnest(attoptions) AS o WHERE o LIKE 'n_distinct%'))
)
SELECT DISTINCT what FROM attached ORDER BY what
"""
"""Of the table with oid $1; one row of words for each kind of thing."""
