-- free
select pg_catalog.version()

-- free
select current_schema()

-- free
show standard_conforming_strings

-- free
SELECT pg_catalog.pg_namespace.nspname FROM pg_catalog.pg_namespace WHERE pg_catalog.pg_namespace.nspname NOT LIKE 'pg\_%' ORDER BY pg_catalog.pg_namespace.nspname

-- free
SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p']) AND pg_catalog.pg_class.relpersistence != 't' AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog'

-- charged
SELECT dept AS dept, COUNT(*) AS count FROM public.visits WHERE day >= TO_DATE('2024-01-01', 'YYYY-MM-DD') AND day < TO_DATE('2024-01-29', 'YYYY-MM-DD') GROUP BY dept ORDER BY count DESC LIMIT 10000

-- free
SELECT dept AS dept, COUNT(*) AS count FROM public.visits WHERE day >= TO_DATE('2024-01-01', 'YYYY-MM-DD') AND day < TO_DATE('2024-01-29', 'YYYY-MM-DD') GROUP BY dept ORDER BY count ASC LIMIT 100

-- charged
SELECT DATE_TRUNC('week', day) AS __timestamp, COUNT(*) AS count FROM public.visits WHERE day >= TO_TIMESTAMP('2024-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND day < TO_TIMESTAMP('2024-02-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('week', day) ORDER BY count DESC LIMIT 10000

-- free
EXPLAIN SELECT dept, COUNT(*) FROM visits WHERE age > 30 GROUP BY dept

-- 42501
SELECT * FROM public.visits LIMIT 1000

-- free
SELECT * FROM public.staff LIMIT 1000
