-- Every column of the tables asked for, with names and types as PostgreSQL quotes them. Run with
-- an empty search_path, so that every type outside pg_catalog comes out with its schema.
WITH RECURSIVE base AS (
    SELECT oid, oid AS root, typtype, typbasetype FROM pg_type
    UNION ALL
    SELECT base.oid, t.oid, t.typtype, t.typbasetype
    FROM base JOIN pg_type t ON t.oid = base.typbasetype WHERE base.typtype = 'd'
)
SELECT
    c.relname::text AS table_name,
    c.relkind::text AS relkind,
    quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS table_sql,
    a.attname::text AS column_name,
    quote_ident(a.attname) AS column_sql,
    format_type(a.atttypid, a.atttypmod) AS record_type,
    quote_ident(tn.nspname) || '.' || quote_ident(t.typname) AS cast_type,
    t.typcategory = 'A' AS is_array,
    t.typname::text AS base_name,
    tn.nspname = 'pg_catalog' AS is_builtin,
    CASE WHEN a.atttypmod > 4 AND t.typname IN ('varchar', 'bpchar')
        THEN a.atttypmod - 4 END AS max_chars,
    NOT coalesce(k.collisdeterministic, true) AS collated,
    NOT a.attnotnull AS nullable,
    a.atthasdef OR a.attidentity <> '' AS has_default,
    a.attgenerated <> '' AS is_generated,
    CASE
        WHEN a.attidentity <> '' THEN 'nextval('
            || quote_literal(pg_get_serial_sequence(
                quote_ident(n.nspname) || '.' || quote_ident(c.relname), a.attname))
            || '::regclass)'
        WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid)
    END AS default_sql,
    coalesce(array_position(i.indkey::int2[], a.attnum) + 1, 0) AS key_place
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN base b ON b.oid = a.atttypid AND b.typtype <> 'd'
JOIN pg_type t ON t.oid = b.root
JOIN pg_namespace tn ON tn.oid = t.typnamespace
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_collation k ON k.oid = a.attcollation
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE n.nspname = $1::text AND c.relname = ANY ($2::text[])
ORDER BY c.relname, a.attnum
