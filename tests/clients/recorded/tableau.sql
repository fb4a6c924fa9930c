-- tool: Tableau, by psqlODBC
-- source: rebuilt by hand: the cursors and their questions follow logs of servers that users published (github.com/ildus/clickhouse_fdw issue 42, github.com/crate/crate issue 10212), the metadata is what psqlODBC's catalogue functions ask for; Tableau's source is not public. Not a capture

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

-- => charged
BEGIN;declare "SQL_CUR0x7f5" cursor with hold for SELECT CAST("visits"."dept" AS TEXT) AS "dept", COUNT(DISTINCT "visits"."patient_id") AS "ctd:patient_id:ok" FROM "public"."visits" "visits" GROUP BY 1 ORDER BY 1 ASC NULLS FIRST;fetch 2048 in "SQL_CUR0x7f5"

-- => free
close "SQL_CUR0x7f5"

-- => free
BEGIN;declare "SQL_CUR0x7f6" cursor with hold for SELECT CAST("staff"."dept" AS TEXT) AS "dept" FROM "public"."staff" "staff" GROUP BY 1 ORDER BY 1 ASC NULLS FIRST;fetch 2048 in "SQL_CUR0x7f6"

-- => free
close "SQL_CUR0x7f6"

-- => 42501
declare "SQL_CUR0x7f7" cursor with hold for SELECT "visits"."age" AS "age", "visits"."dept" AS "dept" FROM "public"."visits" "visits" LIMIT 1000;fetch 2048 in "SQL_CUR0x7f7"
