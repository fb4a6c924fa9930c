-- free
SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid FROM (SELECT typ.oid, typ.typnamespace, typ.typname, typ.typtype, typ.typnotnull, typ.typelem AS elemtypoid FROM pg_type AS typ) AS t JOIN pg_namespace AS ns ON (ns.oid = t.typnamespace) WHERE t.typtype IN ('b', 'r', 'm', 'e', 'd') ORDER BY t.oid

-- free
select TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE from INFORMATION_SCHEMA.tables where TABLE_SCHEMA not in ('information_schema', 'pg_catalog') order by TABLE_SCHEMA, TABLE_NAME

-- free
select COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, DATA_TYPE, case when CHARACTER_MAXIMUM_LENGTH is not null then CHARACTER_MAXIMUM_LENGTH else null end CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE from INFORMATION_SCHEMA.COLUMNS where TABLE_SCHEMA = 'public' and TABLE_NAME = 'visits' order by TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION

-- 42501
select "$Table"."age" as "age", "$Table"."dept" as "dept" from "public"."visits" "$Table" limit 1000

-- charged
select "rows"."dept" as "dept", count(1) as "a0", sum("rows"."cost") as "a1" from (select "_"."dept", "_"."cost" from "public"."visits" "_") "rows" group by "dept" limit 1000001

-- free
select "rows"."dept" as "dept", count(1) as "a0", sum("rows"."cost") as "a1" from (select "_"."dept", "_"."cost" from "public"."visits" "_") "rows" group by "dept" order by "a0" limit 501

-- free
select "_"."id", "_"."name" from "public"."staff" "_" limit 1000
