-- tool: Power BI, by Npgsql 4.0
-- source: taken from Npgsql's public source, version 4.0.17, which Power BI Desktop installs (PostgresDatabaseInfo, NpgsqlConnector: types, reset of a connection); the navigator and DirectQuery are rebuilt by hand, as the connector's source is not public. Line breaks and comments are left out. Not a capture

-- => free
SELECT version()

-- => free
-- values: []
SELECT ns.nspname, a.typname, a.oid, a.typrelid, a.typbasetype, CASE WHEN pg_proc.proname='array_recv' THEN 'a' ELSE a.typtype END AS type, CASE WHEN pg_proc.proname='array_recv' THEN a.typelem WHEN a.typtype='r' THEN rngsubtype ELSE 0 END AS elemoid, CASE WHEN pg_proc.proname IN ('array_recv','oidvectorrecv') THEN 3 WHEN a.typtype='r' THEN 2 WHEN a.typtype='d' THEN 1 ELSE 0 END AS ord FROM pg_type AS a JOIN pg_namespace AS ns ON (ns.oid = a.typnamespace) JOIN pg_proc ON pg_proc.oid = a.typreceive LEFT OUTER JOIN pg_class AS cls ON (cls.oid = a.typrelid) LEFT OUTER JOIN pg_type AS b ON (b.oid = a.typelem) LEFT OUTER JOIN pg_class AS elemcls ON (elemcls.oid = b.typrelid) LEFT OUTER JOIN pg_range ON (pg_range.rngtypid = a.oid) WHERE a.typtype IN ('b', 'r', 'e', 'd') OR (a.typtype = 'c' AND cls.relkind='c') OR (pg_proc.proname='array_recv' AND ( b.typtype IN ('b', 'r', 'e', 'd') OR (b.typtype = 'p' AND b.typname IN ('record', 'void')) OR (b.typtype = 'c' AND elemcls.relkind='c') )) OR (a.typtype = 'p' AND a.typname IN ('record', 'void')) ORDER BY ord

-- => free
-- values: []
SELECT typ.oid, att.attname, att.atttypid FROM pg_type AS typ JOIN pg_namespace AS ns ON (ns.oid = typ.typnamespace) JOIN pg_class AS cls ON (cls.oid = typ.typrelid) JOIN pg_attribute AS att ON (att.attrelid = typ.typrelid) WHERE (typ.typtype = 'c' AND cls.relkind='c') AND attnum > 0 AND NOT attisdropped ORDER BY typ.oid, att.attnum

-- => free
-- values: []
SELECT pg_type.oid, enumlabel FROM pg_enum JOIN pg_type ON pg_type.oid=enumtypid ORDER BY oid, enumsortorder

-- => free
select character_set_name from INFORMATION_SCHEMA.character_sets

-- => free
select TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE from INFORMATION_SCHEMA.tables where TABLE_SCHEMA not in ('information_schema', 'pg_catalog') order by TABLE_SCHEMA, TABLE_NAME

-- => free
select COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, DATA_TYPE, case when CHARACTER_MAXIMUM_LENGTH is not null then CHARACTER_MAXIMUM_LENGTH else null end CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE from INFORMATION_SCHEMA.COLUMNS where TABLE_SCHEMA = 'public' and TABLE_NAME = 'visits' order by TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION

-- => free
select ii.COLUMN_NAME, ii.ORDINAL_POSITION from INFORMATION_SCHEMA.KEY_COLUMN_USAGE ii where ii.TABLE_SCHEMA = 'public' and ii.TABLE_NAME = 'visits' order by ii.ORDINAL_POSITION

-- => 42501
select "$Table"."age" as "age", "$Table"."dept" as "dept" from "public"."visits" "$Table" limit 1000

-- => free
select "_"."id", "_"."name" from "public"."staff" "_" limit 1000

-- => free
select "$Table"."id" as "id", "$Table"."seen" as "seen" from "public"."staff" "$Table" limit 4096

-- => charged
select "rows"."dept" as "dept", count(1) as "a0", sum("rows"."cost") as "a1" from (select "_"."dept", "_"."cost" from "public"."visits" "_") "rows" group by "dept" limit 1000001

-- => free
select "rows"."dept" as "dept", count(1) as "a0", sum("rows"."cost") as "a1" from (select "_"."dept", "_"."cost" from "public"."visits" "_") "rows" group by "dept" order by "a0" limit 501

-- => free
select "_"."dept", "_"."a0", "_"."a1" from (select "rows"."dept" as "dept", count(1) as "a0", sum("rows"."cost") as "a1" from (select "_"."dept", "_"."cost" from "public"."visits" "_") "rows" group by "dept") "_" where not "_"."a0" is null order by "_"."a0" desc, "_"."dept" limit 1001

-- => charged
select count(1) as "a0" from (select "_"."dept", "_"."day" from "public"."visits" "_" where ("_"."day" >= date '2024-01-08' and "_"."day" < date '2024-01-15') and "_"."dept" in ('er', 'icu')) "rows"

-- => free
DISCARD ALL

-- => free
SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;SELECT pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP
