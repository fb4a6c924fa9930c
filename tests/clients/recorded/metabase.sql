-- tool: Metabase
-- source: taken from Metabase's public source at commit 008fd6675457, metabase.driver.postgres (tables, fields, foreign keys, indexes, enumerations, privileges, time zone, truncation of dates) as HoneySQL writes it with its parameters; the first four and the schemas are pgjdbc's, the scan of values and the charts follow metabase.driver.sql.query-processor. Line breaks are left out. Not a capture

-- => free
SET extra_float_digits = 2

-- => free
SET application_name = 'Metabase v0.55.1'

-- => free
SHOW TRANSACTION ISOLATION LEVEL

-- => free
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ UNCOMMITTED

-- => free
-- values: []
SELECT nspname AS "TABLE_SCHEM", current_database() AS "TABLE_CATALOG" FROM pg_catalog.pg_namespace WHERE nspname <> 'pg_toast' AND (nspname !~ '^pg_temp_' OR nspname = (pg_catalog.current_schemas(true))[1]) ORDER BY "TABLE_SCHEM"

-- => free
-- values: []
with table_privileges as (select NULL as role, t.schemaname as schema, t.objectname as table, pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"', 'update') as update, pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"', 'select') as select, pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"', 'insert') as insert, pg_catalog.has_table_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' || '"' || replace(t.objectname, '"', '""') || '"', 'delete') as delete from (select schemaname, tablename as objectname from pg_catalog.pg_tables union select schemaname, viewname as objectname from pg_catalog.pg_views union select schemaname, matviewname as objectname from pg_catalog.pg_matviews) t where t.schemaname !~ '^pg_' and t.schemaname <> 'information_schema' and pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage')) select t.* from table_privileges t

-- => free
-- values: ["0", "^pg_", "information_schema", "public"]
SELECT "n"."nspname" AS "schema", "c"."relname" AS "name", CASE "c"."relkind" WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END AS "type", "d"."description" AS "description", "stat"."n_live_tup" AS "estimated_row_count" FROM "pg_catalog"."pg_class" AS "c" INNER JOIN "pg_catalog"."pg_namespace" AS "n" ON "c"."relnamespace" = "n"."oid" LEFT JOIN "pg_catalog"."pg_description" AS "d" ON ("c"."oid" = "d"."objoid") AND ("d"."objsubid" = $1) AND ("d"."classoid" = 'pg_class'::regclass) LEFT JOIN "pg_stat_user_tables" AS "stat" ON ("n"."nspname" = "stat"."schemaname") AND ("c"."relname" = "stat"."relname") WHERE ("c"."relnamespace" = "n"."oid") AND ("n"."nspname" !~ $2) AND ("n"."nspname" <> $3) AND c.relkind in ('r', 'p', 'v', 'f', 'm') AND ("n"."nspname" IN ($4)) ORDER BY "type" ASC, "schema" ASC, "name" ASC

-- => free
-- values: ["public", "public"]
SELECT "c"."column_name" AS "name", CASE WHEN "c"."udt_schema" IN ('public', 'pg_catalog') THEN FORMAT('%s', "c"."udt_name") ELSE FORMAT('"%s"."%s"', "c"."udt_schema", "c"."udt_name") END AS "database-type", "c"."ordinal_position" - 1 AS "database-position", "c"."table_schema" AS "table-schema", "c"."table_name" AS "table-name", "pk"."column_name" IS NOT NULL AS "pk?", COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', CAST("c"."table_schema" AS TEXT), CAST("c"."table_name" AS TEXT)) AS REGCLASS) AS OID), "c"."ordinal_position") AS "field-comment", (("column_default" IS NULL) OR (LOWER("column_default") = 'null')) AND ("is_nullable" = 'NO') AND NOT ((("column_default" IS NOT NULL) AND ("column_default" LIKE '%nextval(%')) OR ("is_identity" <> 'NO')) AS "database-required", (("column_default" IS NOT NULL) AND ("column_default" LIKE '%nextval(%')) OR ("is_identity" <> 'NO') AS "database-is-auto-increment" FROM "information_schema"."columns" AS "c" LEFT JOIN (SELECT "tc"."table_schema", "tc"."table_name", "kc"."column_name" FROM "information_schema"."table_constraints" AS "tc" INNER JOIN "information_schema"."key_column_usage" AS "kc" ON ("tc"."constraint_name" = "kc"."constraint_name") AND ("tc"."table_schema" = "kc"."table_schema") AND ("tc"."table_name" = "kc"."table_name") WHERE "tc"."constraint_type" = 'PRIMARY KEY') AS "pk" ON ("c"."table_schema" = "pk"."table_schema") AND ("c"."table_name" = "pk"."table_name") AND ("c"."column_name" = "pk"."column_name") WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND ("c"."table_schema" IN ($1)) UNION ALL SELECT "pa"."attname" AS "name", CASE WHEN "ptn"."nspname" IN ('public', 'pg_catalog') THEN FORMAT('%s', "pt"."typname") ELSE FORMAT('"%s"."%s"', "ptn"."nspname", "pt"."typname") END AS "database-type", "pa"."attnum" - 1 AS "database-position", "pn"."nspname" AS "table-schema", "pc"."relname" AS "table-name", FALSE AS "pk?", NULL AS "field-comment", FALSE AS "database-required", FALSE AS "database-is-auto-increment" FROM "pg_catalog"."pg_class" AS "pc" INNER JOIN "pg_catalog"."pg_namespace" AS "pn" ON "pn"."oid" = "pc"."relnamespace" INNER JOIN "pg_catalog"."pg_attribute" AS "pa" ON "pa"."attrelid" = "pc"."oid" INNER JOIN "pg_catalog"."pg_type" AS "pt" ON "pt"."oid" = "pa"."atttypid" INNER JOIN "pg_catalog"."pg_namespace" AS "ptn" ON "ptn"."oid" = "pt"."typnamespace" WHERE ("pc"."relkind" = 'm') AND ("pa"."attnum" >= 1) AND ("pn"."nspname" IN ($2)) ORDER BY "table-schema" ASC, "table-name" ASC, "database-position" ASC

-- => free
-- values: []
SELECT nspname, typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN (SELECT DISTINCT enumtypid FROM pg_enum e)

-- => free
-- values: []
SELECT "fk_ns"."nspname" AS "fk-table-schema", "fk_table"."relname" AS "fk-table-name", "fk_column"."attname" AS "fk-column-name", "pk_ns"."nspname" AS "pk-table-schema", "pk_table"."relname" AS "pk-table-name", "pk_column"."attname" AS "pk-column-name" FROM "pg_constraint" AS "c" INNER JOIN "pg_class" AS "fk_table" ON "c"."conrelid" = "fk_table"."oid" INNER JOIN "pg_namespace" AS "fk_ns" ON "c"."connamespace" = "fk_ns"."oid" INNER JOIN "pg_attribute" AS "fk_column" ON "c"."conrelid" = "fk_column"."attrelid" INNER JOIN "pg_class" AS "pk_table" ON "c"."confrelid" = "pk_table"."oid" INNER JOIN "pg_namespace" AS "pk_ns" ON "pk_table"."relnamespace" = "pk_ns"."oid" INNER JOIN "pg_attribute" AS "pk_column" ON "c"."confrelid" = "pk_column"."attrelid" WHERE fk_ns.nspname !~ '^information_schema|catalog_history|pg_' AND ("c"."contype" = 'f'::char) AND ("fk_column"."attnum" = ANY(c.conkey)) AND ("pk_column"."attnum" = ANY(c.confkey)) ORDER BY "fk-table-schema" ASC, "fk-table-name" ASC

-- => free
-- values: []
SELECT "tmp"."table-schema", "tmp"."table-name", TRIM(BOTH '"' FROM PG_CATALOG.PG_GET_INDEXDEF("tmp"."ci_oid", "tmp"."pos", FALSE)) AS "field-name" FROM (SELECT "n"."nspname" AS "table-schema", "ct"."relname" AS "table-name", "ci"."oid" AS "ci_oid", (INFORMATION_SCHEMA._PG_EXPANDARRAY("i"."indkey")).n AS "pos" FROM "pg_catalog"."pg_class" AS "ct" INNER JOIN "pg_catalog"."pg_namespace" AS "n" ON "ct"."relnamespace" = "n"."oid" INNER JOIN "pg_catalog"."pg_index" AS "i" ON "ct"."oid" = "i"."indrelid" INNER JOIN "pg_catalog"."pg_class" AS "ci" ON "ci"."oid" = "i"."indexrelid" WHERE (PG_CATALOG.PG_GET_EXPR("i"."indpred", "i"."indrelid") IS NULL) AND n.nspname !~ '^information_schema|catalog_history|pg_') AS "tmp" WHERE "tmp"."pos" = 1

-- => free
show timezone;

-- => free
-- values: []
SELECT TRUE AS "_" FROM "public"."visits" WHERE 1 <> 1 LIMIT 0

-- => 42501
-- values: []
SELECT "public"."visits"."dept" AS "dept" FROM "public"."visits" LIMIT 10000

-- => 42501
-- values: []
SELECT "source"."dept" AS "dept", "source"."substring1" AS "substring1" FROM (SELECT "public"."visits"."dept" AS "dept", SUBSTRING("public"."visits"."dept", 1, 1234) AS "substring1" FROM "public"."visits") AS "source" LIMIT 10000

-- => charged
-- values: []
SELECT COUNT(*) AS "count" FROM "public"."visits"

-- => charged
-- values: []
SELECT "public"."visits"."dept" AS "dept", COUNT(*) AS "count" FROM "public"."visits" GROUP BY "public"."visits"."dept" ORDER BY "public"."visits"."dept" ASC

-- => free
-- values: []
SELECT "public"."visits"."dept" AS "dept", COUNT(*) AS "count" FROM "public"."visits" GROUP BY "public"."visits"."dept" ORDER BY "count" DESC, "public"."visits"."dept" ASC

-- => charged
-- values: []
SELECT CAST(DATE_TRUNC('week', "public"."visits"."day") AS date) AS "day", COUNT(*) AS "count" FROM "public"."visits" WHERE "public"."visits"."day" >= date '2024-01-01' AND "public"."visits"."day" < date '2024-01-29' GROUP BY CAST(DATE_TRUNC('week', "public"."visits"."day") AS date) ORDER BY CAST(DATE_TRUNC('week', "public"."visits"."day") AS date) ASC

-- => charged
-- values: []
SELECT FLOOR(("public"."visits"."age" / 12.5)) * 12.5 AS "age", COUNT(*) AS "count" FROM "public"."visits" GROUP BY FLOOR(("public"."visits"."age" / 12.5)) * 12.5 ORDER BY FLOOR(("public"."visits"."age" / 12.5)) * 12.5 ASC

-- => charged
-- values: []
SELECT CAST("public"."visits"."day" AS date) AS "day", SUM("public"."visits"."cost") AS "sum" FROM "public"."visits" GROUP BY CAST("public"."visits"."day" AS date) ORDER BY CAST("public"."visits"."day" AS date) ASC

-- => charged
-- values: []
SELECT CAST(extract(month from "public"."visits"."day") AS integer) AS "day", COUNT(*) AS "count" FROM "public"."visits" GROUP BY CAST(extract(month from "public"."visits"."day") AS integer) ORDER BY CAST(extract(month from "public"."visits"."day") AS integer) ASC

-- => charged
-- values: ["er"]
SELECT COUNT(*) AS "count" FROM "public"."visits" WHERE "public"."visits"."day" >= timestamp with time zone '2024-01-08 00:00:00.000Z' AND "public"."visits"."day" < timestamp with time zone '2024-01-15 00:00:00.000Z' AND "public"."visits"."dept" = $1

-- => free
SET SESSION TIMEZONE TO 'UTC';
