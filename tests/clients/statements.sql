-- tool: names and forms that tools and people bring along, one by one
-- source: the list of the clients that were tried: grammar, types, names of BigQuery and Snowflake, error bars, probes, catalogue, cursors, COPY

-- => charged
-- values: ["er", "icu"]
SELECT COUNT(*) FROM visits WHERE dept IN ($1,$2)

-- => free
-- values: ["3"]
SELECT id FROM staff LIMIT $1::INTEGER

-- => free
-- values: ["3", "1"]
SELECT id FROM staff LIMIT $1::INTEGER OFFSET $2::INTEGER

-- => free
-- values: ["{er,icu}"]
SELECT COUNT(*) FROM visits WHERE dept = ANY($1)

-- => free
-- values: ["{er,icu}"]
SELECT COUNT(*) FROM visits WHERE dept = ANY($1::text[])

-- => free
SELECT COUNT(*) FROM visits WHERE dept = ANY(ARRAY['er','icu'])

-- => charged
SELECT COUNT(*) FROM visits WHERE age = ANY('{1,2,3}'::int[])

-- => charged
-- values: ["{er,icu}"]
SELECT COUNT(*) FROM visits WHERE NOT (dept = ANY($1))

-- => free
-- values: ["{er,icu}"]
SELECT COUNT(*) FROM visits WHERE dept <> ALL($1)

-- => charged
SELECT COUNT(*) FROM "clinic"."public"."visits"

-- => charged
SELECT "clinic"."public"."visits"."dept", COUNT(*) FROM "clinic"."public"."visits" GROUP BY 1

-- => free
SELECT public.visits.dept FROM public.visits GROUP BY public.visits.dept

-- => free
SELECT id AS select, name AS order, dept AS from, salary AS table, since AS user FROM staff LIMIT 2

-- => charged
SELECT COUNT(*) AS count, SUM(cost) AS sum, MAX(age) AS max FROM visits

-- => charged
SELECT COUNT(*) FROM visits WHERE day AT TIME ZONE 'UTC' >= '2024-01-08T00:00:00Z'

-- => charged
SELECT date_trunc('week', day AT TIME ZONE 'UTC') AS w, COUNT(*) FROM visits GROUP BY 1

-- => free
SELECT date_trunc('month', seen AT TIME ZONE 'UTC') AS w, COUNT(*) FROM staff GROUP BY 1

-- => free
SELECT COUNT(*) FROM visits WHERE day >= '2024-01-08T00:00:00Z' AND day < '2024-01-15T00:00:00+00:00'

-- => charged
SELECT COUNT(*) FROM visits WHERE day >= '2024-01-08 00:00:00+00'

-- => free
SELECT COUNT(*) FROM visits WHERE day >= timestamptz '2024-01-08 02:00:00+02'

-- => free
SELECT COUNT(*) FROM visits WHERE day >= timestamp with time zone '2024-01-08 00:00:00.000Z'

-- => free
SELECT COUNT(*) FROM visits WHERE day >= TO_TIMESTAMP('2024-01-08 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')

-- => free
SELECT COUNT(*) FROM visits WHERE day >= to_timestamp(1704672000)

-- => free
SELECT COUNT(*) FROM visits WHERE day >= to_timestamp(1704672000) AT TIME ZONE 'UTC'

-- => free
-- values: ["2024-01-08 00:00:00+00"]
SELECT COUNT(*) FROM staff WHERE seen < $1::timestamptz

-- => free
-- values: ["2024-01-08 00:00:00+00"]
SELECT COUNT(*) FROM staff WHERE seen < $1

-- => free
SELECT COUNT(*) FROM visits WHERE day >= CAST('2024-01-08T00:00:00Z' AS TIMESTAMPTZ)

-- => 0A000
SELECT COUNT(*) FROM staff WHERE seen AT TIME ZONE 'Europe/Berlin' > '2020-01-01'

-- => free
SELECT extract(epoch FROM seen) FROM staff LIMIT 1

-- => free
SELECT n, n / SUM(n) OVER () AS share FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) t

-- => charged
SELECT SUM(age) FROM visits

-- => free
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=0) dept, COUNT(*) FROM visits GROUP BY dept

-- => charged
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_groups_contributed=2) dept, COUNT(*) FROM visits GROUP BY dept

-- => free
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, privacy_unit_column=patient_id) COUNT(*) FROM visits

-- => charged
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_rows_contributed=2) COUNT(*) FROM visits

-- => 0A000
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, min_privacy_units_per_group=3) dept, COUNT(*) FROM visits GROUP BY dept

-- => 0A000
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, group_selection_strategy=PUBLIC_GROUPS) dept, COUNT(*) FROM visits GROUP BY dept

-- => charged
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) SUM(cost, contribution_bounds_per_row => (0, 50)) FROM visits

-- => 0A000
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) SUM(cost, contribution_bounds_per_group => (0, 50)) FROM visits

-- => 0A000
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) AVG(cost, contribution_bounds_per_group => (0, 50)) FROM visits

-- => free
SELECT WITH ANONYMIZATION OPTIONS(epsilon=1) ANON_COUNT(*) FROM visits

-- => 0A000
SELECT ANON_SUM(cost CLAMPED BETWEEN 0 AND 50) FROM visits

-- => 0A000
SELECT ANON_AVG(cost CLAMPED BETWEEN 0 AND 50) FROM visits

-- => free
SELECT ANON_COUNT(*) FROM visits

-- => 0A000
SELECT APPROX_QUANTILES(age, 4) FROM visits

-- => 0A000
SELECT APPROX_QUANTILES(age, 2)[OFFSET(1)] FROM visits

-- => free
SELECT `dept`, COUNT(*) FROM `visits` GROUP BY `dept`

-- => charged
SELECT SAFE_DIVIDE(SUM(cost), COUNT(*)) FROM visits

-- => charged
SELECT DATE_TRUNC(day, MONTH) AS m, COUNT(*) FROM visits GROUP BY 1

-- => charged
SELECT COUNTIF(age > 30) FROM visits

-- => 0A000
SELECT WITH AGGREGATION_THRESHOLD OPTIONS(threshold=10, privacy_unit_column=patient_id) dept, COUNT(*) FROM visits GROUP BY dept

-- => free
SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n), DP_INTERVAL_HIGH(n) FROM visits

-- => free
SELECT dept, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS lo, DP_INTERVAL_HIGH(n) AS hi FROM visits GROUP BY dept

-- => 0A000
SELECT * FROM TABLE(ESTIMATE_REMAINING_DP_AGGREGATES('visits'))

-- => 0A000
SELECT ESTIMATE_REMAINING_DP_AGGREGATES('visits')

-- => free
SELECT dept, COUNT(*) AS n, dp_low(COUNT(*)) AS lo, dp_high(COUNT(*)) AS hi, dp_margin(COUNT(*)) AS m FROM visits GROUP BY dept

-- => free
SELECT dept, n, dp_low(n), dp_high(n), dp_margin(n) FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) AS virtual_table ORDER BY n DESC LIMIT 100

-- => free
SELECT dept AS dept, SUM(n) AS "SUM(n)", dp_low(SUM(n)) AS lo FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) AS virtual_table GROUP BY dept ORDER BY "SUM(n)" DESC LIMIT 1000

-- => free
SELECT lo, hi FROM (SELECT dp_low(COUNT(*)) AS lo, dp_high(COUNT(*)) AS hi FROM visits) AS virtual_table LIMIT 1000

-- => free
SELECT dept AS dept, MAX(lo) AS "MAX(lo)" FROM (SELECT dept, dp_low(COUNT(*)) AS lo FROM visits GROUP BY dept) AS virtual_table GROUP BY dept LIMIT 10

-- => charged
WITH t AS (SELECT dept, AVG(cost) AS c FROM visits GROUP BY dept) SELECT dept, c, DP_INTERVAL_LOW(c) AS l FROM t WHERE c > 1

-- => free
SELECT dept, n, dp_margin(n) FROM (SELECT * FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) a) b

-- => free
SELECT * FROM visits WHERE 0=1

-- => free
SELECT * FROM visits WHERE FALSE

-- => free
SELECT TRUE FROM visits WHERE 1 <> 1 LIMIT 0

-- => free
SELECT * FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) t WHERE 1=0

-- => free
SELECT 1 FROM visits LIMIT 1

-- => free
SELECT * FROM "visits" AS "q01" WHERE (0 = 1)

-- => charged
SELECT COUNT(*) FROM visits WHERE 1=0

-- => free
SELECT 'int'::regtype

-- => free
SELECT 'int'::regtype::oid

-- => free
SELECT typreceive FROM pg_type WHERE typname = 'int8'

-- => free
SELECT typreceive::text FROM pg_type WHERE typname = 'int8'

-- => free
SELECT 'int8recv'::regproc

-- => free
SELECT parse_ident('public.visits')

-- => free
SELECT * FROM unnest(ARRAY[1,2]) WITH ORDINALITY AS t(a, b)

-- => free
SELECT c.conname, array(SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols(colid, arridx) JOIN pg_attribute AS ca ON cols.colid = ca.attnum WHERE ca.attrelid = c.conrelid ORDER BY cols.arridx) FROM pg_constraint AS c

-- => free
SELECT character_maximum_length IS NULL FROM information_schema.columns WHERE table_name = 'staff' LIMIT 1

-- => free
SELECT datname FROM pg_database ORDER BY 1

-- => free
SELECT pg_catalog.has_any_column_privilege(current_user, 'visits', 'select') as select

-- => free
SELECT a.attname FROM ((pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace) JOIN pg_attribute a ON a.attrelid = c.oid) WHERE c.relname = 'visits' AND a.atthasdef = false

-- => free
BEGIN; DECLARE c1 CURSOR FOR SELECT id FROM staff ORDER BY id; FETCH 2 FROM c1; MOVE 1 IN c1; FETCH ALL IN c1; CLOSE c1; COMMIT

-- => free
declare "SQL_CUR1" cursor with hold for SELECT id FROM staff;fetch 2048 in "SQL_CUR1"

-- => free
close "SQL_CUR1"

-- => free
COPY (SELECT id, name FROM staff) TO STDOUT WITH (FORMAT csv, HEADER true)

-- => free
COPY (SELECT id FROM staff) TO STDOUT (FORMAT binary)

-- => free
COPY (SELECT id FROM staff) TO STDOUT

-- => free
COPY staff TO STDOUT

-- => free
EXPLAIN SELECT dept, COUNT(*) FROM visits WHERE cost > 3 GROUP BY dept

-- => free
EXPLAIN (FORMAT JSON) SELECT dept, COUNT(*) FROM visits WHERE cost > 3 GROUP BY dept

-- => free
SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES LIMIT 1
