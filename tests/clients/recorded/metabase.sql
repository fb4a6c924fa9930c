-- free
SELECT nspname FROM pg_namespace WHERE nspname !~ '^information_schema|catalog_history|pg_'

-- free
select t.schemaname as schema, t.tablename as name, has_any_column_privilege(quote_ident(t.schemaname) || '.' || quote_ident(t.tablename), 'select') as select from pg_tables t where t.schemaname = 'public'

-- free
SELECT TRUE AS "_" FROM "public"."visits" WHERE 1 <> 1 LIMIT 0

-- 42501
SELECT "public"."visits"."dept" AS "dept" FROM "public"."visits" LIMIT 10000

-- charged
SELECT "public"."visits"."dept" AS "dept", COUNT(*) AS "count" FROM "public"."visits" GROUP BY "public"."visits"."dept" ORDER BY "public"."visits"."dept" ASC

-- free
SELECT "public"."visits"."dept" AS "dept", COUNT(*) AS "count" FROM "public"."visits" GROUP BY "public"."visits"."dept" ORDER BY "count" DESC, "public"."visits"."dept" ASC

-- charged
SELECT DATE_TRUNC('week', "public"."visits"."day") AS "day", COUNT(*) AS "count" FROM "public"."visits" WHERE "public"."visits"."day" >= timestamp with time zone '2024-01-01 00:00:00.000Z' AND "public"."visits"."day" < timestamp with time zone '2024-01-29 00:00:00.000Z' GROUP BY DATE_TRUNC('week', "public"."visits"."day") ORDER BY DATE_TRUNC('week', "public"."visits"."day") ASC
