-- tool: Power BI, by Npgsql 8
-- source: rebuilt by hand: the types by Npgsql's public source, the rest by what the connector is known to send; not a capture

-- => free
SELECT version();
SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid FROM (SELECT typ.oid, typ.typnamespace, typ.typname, typ.typtype, typ.typrelid, typ.typnotnull, typ.relkind, elemtyp.oid AS elemtypoid, elemtyp.typname AS elemtypname, elemcls.relkind AS elemrelkind, CASE WHEN elemproc.proname='array_recv' THEN 'a' ELSE elemtyp.typtype END AS elemtyptype FROM (SELECT typ.oid, typnamespace, typname, typrelid, typnotnull, relkind, typelem AS elemoid, CASE WHEN proc.proname='array_recv' THEN 'a' ELSE typ.typtype END AS typtype, CASE WHEN proc.proname='array_recv' THEN typ.typelem WHEN typ.typtype='r' THEN rngsubtype WHEN typ.typtype='m' THEN (SELECT rngtypid FROM pg_range WHERE rngmultitypid = typ.oid) WHEN typ.typtype='d' THEN typ.typbasetype END AS elemtypoid FROM pg_type AS typ LEFT JOIN pg_class AS cls ON (cls.oid = typ.typrelid) LEFT JOIN pg_proc AS proc ON proc.oid = typ.typreceive LEFT JOIN pg_range ON (pg_range.rngtypid = typ.oid)) AS typ LEFT JOIN pg_type AS elemtyp ON elemtyp.oid = elemtypoid LEFT JOIN pg_class AS elemcls ON (elemcls.oid = elemtyp.typrelid) LEFT JOIN pg_proc AS elemproc ON elemproc.oid = elemtyp.typreceive) AS t JOIN pg_namespace AS ns ON (ns.oid = typnamespace) WHERE typtype IN ('b', 'r', 'm', 'e', 'd') OR (typtype = 'c' AND relkind='c') OR (typtype = 'p' AND typname IN ('record', 'void')) OR (typtype = 'a' AND (elemtyptype IN ('b', 'r', 'm', 'e', 'd') OR (elemtyptype = 'p' AND elemtypname IN ('record', 'void')) OR (elemtyptype = 'c' AND elemrelkind='c'))) ORDER BY CASE WHEN typtype IN ('b', 'e', 'p') THEN 0 WHEN typtype = 'r' THEN 1 WHEN typtype = 'm' THEN 2 WHEN typtype = 'c' THEN 3 WHEN typtype = 'd' AND elemtyptype <> 'a' THEN 4 WHEN typtype = 'a' THEN 5 WHEN typtype = 'd' AND elemtyptype = 'a' THEN 6 END;
SELECT typ.oid, att.attname, att.atttypid FROM pg_type AS typ JOIN pg_namespace AS ns ON (ns.oid = typ.typnamespace) JOIN pg_class AS cls ON (cls.oid = typ.typrelid) JOIN pg_attribute AS att ON (att.attrelid = typ.typrelid) WHERE (typ.typtype = 'c' AND cls.relkind='c') AND attnum > 0 AND NOT attisdropped ORDER BY typ.oid, att.attnum;
SELECT pg_type.oid, enumlabel FROM pg_enum JOIN pg_type ON pg_type.oid=enumtypid ORDER BY oid, enumsortorder;

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
