-- free
SET TIME ZONE 'UTC'

-- free
SELECT c.relname, CASE WHEN c.relispartition THEN 'p' WHEN c.relkind IN ('m', 'v') THEN 'v' ELSE 't' END, obj_description(c.oid, 'pg_class') FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND n.nspname NOT IN ('pg_catalog', 'pg_toast') AND pg_catalog.pg_table_is_visible(c.oid)

-- charged
SELECT COUNT(*) AS "__count" FROM "visits"

-- charged
SELECT "visits"."dept", COUNT("visits"."age") AS "n" FROM "visits" WHERE "visits"."day" >= '2024-01-08'::date GROUP BY "visits"."dept" ORDER BY "visits"."dept" ASC

-- 42501
SELECT "visits"."age", "visits"."dept" FROM "visits" LIMIT 21

-- free
SELECT "staff"."id", "staff"."name" FROM "staff" WHERE "staff"."seen" < '2030-01-01T00:00:00+00:00'::timestamptz ORDER BY "staff"."id" ASC LIMIT 21

-- free
SELECT 1 AS "a" FROM "staff" WHERE "staff"."id" = 3 LIMIT 1
