-- free
SET extra_float_digits = 3

-- free
SET application_name = 'DBeaver 24.0 - Main'

-- free
SELECT current_schema(),session_user

-- free
SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=n.oid AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass ORDER BY nspname

-- free
SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, d.description FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid=t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C')

-- free
SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 WHERE c.relnamespace='public'::regnamespace AND c.relkind not in ('i','I','c')

-- 42501
SELECT x.* FROM public.visits x

-- free
SELECT x.* FROM public.staff x

-- charged
SELECT dept, count(*) FROM public.visits WHERE age BETWEEN 18 AND 65 GROUP BY dept

-- free
EXPLAIN SELECT dept, count(*) FROM public.visits WHERE age BETWEEN 18 AND 65 GROUP BY dept
