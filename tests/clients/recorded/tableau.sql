-- tool: Tableau, by psqlODBC
-- source: rebuilt by hand from Tableau's public description of how it reads metadata and from server logs that users published; not a capture

-- => free
BEGIN

-- => free
SET application_name = 'Tableau Desktop'

-- => free
select current_schema()

-- => free
SELECT n.nspname, c.relname, c.relkind FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY n.nspname, c.relname

-- => free
SELECT * FROM (SELECT * FROM "public"."visits") "TableauSQL" LIMIT 0

-- => free
SELECT * FROM "public"."visits" WHERE 1=0

-- => charged
declare "SQL_CUR0x7f1" cursor with hold for SELECT "visits"."dept" AS "dept", COUNT(*) AS "cnt:visits:ok", AVG("visits"."cost") AS "avg:cost:ok" FROM "public"."visits" "visits" GROUP BY 1;fetch 2048 in "SQL_CUR0x7f1"

-- => free
close "SQL_CUR0x7f1"

-- => charged
declare "SQL_CUR0x7f2" cursor with hold for SELECT CAST(DATE_TRUNC('WEEK', "visits"."day") AS DATE) AS "twk:day:ok", COUNT(*) AS "cnt:visits:ok" FROM "public"."visits" "visits" GROUP BY 1;fetch 2048 in "SQL_CUR0x7f2"

-- => free
close "SQL_CUR0x7f2"

-- => free
declare "SQL_CUR0x7f3" cursor with hold for SELECT "visits"."dept" AS "dept", COUNT(*) AS "cnt:visits:ok", AVG("visits"."cost") AS "avg:cost:ok" FROM "public"."visits" "visits" GROUP BY "visits"."dept" HAVING (COUNT(1) > 0);fetch 2048 in "SQL_CUR0x7f3"

-- => free
close "SQL_CUR0x7f3"

-- => charged
declare "SQL_CUR0x7f4" cursor with hold for SELECT SUM("visits"."cost") AS "sum:cost:ok" FROM "public"."visits" "visits" WHERE (("visits"."day" >= (DATE '2024-01-08')) AND ("visits"."day" <= (DATE '2024-01-14')) AND ("visits"."dept" IN ('er', 'icu'))) HAVING (COUNT(1) > 0);fetch 2048 in "SQL_CUR0x7f4"

-- => free
close "SQL_CUR0x7f4"

-- => free
COMMIT
