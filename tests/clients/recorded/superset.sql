-- tool: Apache Superset 6.1.0 with SQLAlchemy 1.4.54
-- source: recorded; tests/clients/tools/run_superset.py ran against PostgreSQL 15, and a proxy read the frames

-- => free
SELECT t.oid, typarray
FROM pg_type t JOIN pg_namespace ns
    ON typnamespace = ns.oid
WHERE typname = 'hstore';

-- => free
select pg_catalog.version()

-- => free
select current_schema()

-- => free
show transaction isolation level

-- => free
show standard_conforming_strings

-- => free
select relname from pg_class c join pg_namespace n on n.oid=c.relnamespace where n.nspname='public' and relname='visits'

-- => free
SELECT c.oid
            FROM pg_catalog.pg_class c
            LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            WHERE (n.nspname = 'public')
            AND c.relname = 'visits' AND c.relkind in
            ('r', 'v', 'm', 'f', 'p')

-- => free
SELECT a.attname,
              pg_catalog.format_type(a.atttypid, a.atttypmod),
              (
                SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid)
                FROM pg_catalog.pg_attrdef d
                WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum
                AND a.atthasdef
              ) AS DEFAULT,
              a.attnotnull,
              a.attrelid as table_oid,
              pgd.description as comment,
              a.attgenerated as generated,
                              (SELECT json_build_object(
                    'always', a.attidentity = 'a',
                    'start', s.seqstart,
                    'increment', s.seqincrement,
                    'minvalue', s.seqmin,
                    'maxvalue', s.seqmax,
                    'cache', s.seqcache,
                    'cycle', s.seqcycle)
                FROM pg_catalog.pg_sequence s
                JOIN pg_catalog.pg_class c on s.seqrelid = c."oid"
                WHERE c.relkind = 'S'
                AND a.attidentity != ''
                AND s.seqrelid = pg_catalog.pg_get_serial_sequence(
                    a.attrelid::regclass::text, a.attname
                )::regclass::oid
                ) as identity_options                
            FROM pg_catalog.pg_attribute a
            LEFT JOIN pg_catalog.pg_description pgd ON (
                pgd.objoid = a.attrelid AND pgd.objsubid = a.attnum)
            WHERE a.attrelid = 16386
            AND a.attnum > 0 AND NOT a.attisdropped
            ORDER BY a.attnum

-- => free
SELECT t.typname as "name",
               pg_catalog.format_type(t.typbasetype, t.typtypmod) as "attype",
               not t.typnotnull as "nullable",
               t.typdefault as "default",
               pg_catalog.pg_type_is_visible(t.oid) as "visible",
               n.nspname as "schema"
            FROM pg_catalog.pg_type t
               LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
            WHERE t.typtype = 'd'

-- => free
SELECT t.typname as "name",
               -- no enum defaults in 8.4 at least
               -- t.typdefault as "default",
               pg_catalog.pg_type_is_visible(t.oid) as "visible",
               n.nspname as "schema",
               e.enumlabel as "label"
            FROM pg_catalog.pg_type t
                 LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
                 LEFT JOIN pg_catalog.pg_enum e ON t.oid = e.enumtypid
            WHERE t.typtype = 'e'
        ORDER BY "schema", "name", e.oid

-- => free
select relname from pg_class c join pg_namespace n on n.oid=c.relnamespace where n.nspname='public' and relname='staff'

-- => free
SELECT c.oid
            FROM pg_catalog.pg_class c
            LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            WHERE (n.nspname = 'public')
            AND c.relname = 'staff' AND c.relkind in
            ('r', 'v', 'm', 'f', 'p')

-- => free
SELECT a.attname,
              pg_catalog.format_type(a.atttypid, a.atttypmod),
              (
                SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid)
                FROM pg_catalog.pg_attrdef d
                WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum
                AND a.atthasdef
              ) AS DEFAULT,
              a.attnotnull,
              a.attrelid as table_oid,
              pgd.description as comment,
              a.attgenerated as generated,
                              (SELECT json_build_object(
                    'always', a.attidentity = 'a',
                    'start', s.seqstart,
                    'increment', s.seqincrement,
                    'minvalue', s.seqmin,
                    'maxvalue', s.seqmax,
                    'cache', s.seqcache,
                    'cycle', s.seqcycle)
                FROM pg_catalog.pg_sequence s
                JOIN pg_catalog.pg_class c on s.seqrelid = c."oid"
                WHERE c.relkind = 'S'
                AND a.attidentity != ''
                AND s.seqrelid = pg_catalog.pg_get_serial_sequence(
                    a.attrelid::regclass::text, a.attname
                )::regclass::oid
                ) as identity_options                
            FROM pg_catalog.pg_attribute a
            LEFT JOIN pg_catalog.pg_description pgd ON (
                pgd.objoid = a.attrelid AND pgd.objsubid = a.attnum)
            WHERE a.attrelid = 16391
            AND a.attnum > 0 AND NOT a.attisdropped
            ORDER BY a.attnum

-- => free
SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY nspname

-- => free
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind in ('r', 'p')

-- => free
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'f'

-- => free
set search_path = "public"

-- => charged
SELECT
  dept AS dept,
  COUNT(*) AS count,
  AVG(cost) AS cost
FROM public.visits
GROUP BY
  dept
ORDER BY
  count DESC
LIMIT 10000

-- => free
SELECT
  dept AS dept,
  COUNT(*) AS count,
  AVG(cost) AS cost
FROM public.visits
GROUP BY
  dept
ORDER BY
  count ASC
LIMIT 50

-- => charged
SELECT
  dept AS dept,
  COUNT(*) AS count
FROM public.visits
WHERE
  day >= TO_DATE('2024-01-01', 'YYYY-MM-DD')
  AND day < TO_DATE('2024-01-29', 'YYYY-MM-DD')
GROUP BY
  dept
LIMIT 10000

-- => charged
SELECT
  DATE_TRUNC('WEEK', day) AS __timestamp,
  COUNT(*) AS count
FROM public.visits
WHERE
  day >= TO_DATE('2024-01-01', 'YYYY-MM-DD')
  AND day < TO_DATE('2024-01-29', 'YYYY-MM-DD')
GROUP BY
  DATE_TRUNC('WEEK', day)
LIMIT 10000

-- => charged
SELECT
  DATE_TRUNC('WEEK', day) AS __timestamp,
  dept AS dept,
  COUNT(*) AS count
FROM public.visits
JOIN (
  SELECT
    dept AS dept__,
    COUNT(*) AS mme_inner__
  FROM public.visits
  WHERE
    day >= TO_DATE('2024-01-01', 'YYYY-MM-DD')
    AND day < TO_DATE('2024-01-29', 'YYYY-MM-DD')
  GROUP BY
    dept
  ORDER BY
    COUNT(*) DESC
  LIMIT 2
) AS series_limit
  ON dept = dept__
WHERE
  day >= TO_DATE('2024-01-01', 'YYYY-MM-DD')
  AND day < TO_DATE('2024-01-29', 'YYYY-MM-DD')
GROUP BY
  dept,
  DATE_TRUNC('WEEK', day)
LIMIT 10000

-- => charged
SELECT
  dept AS dept,
  COUNT(*) AS count
FROM public.visits
WHERE
  dept IN ('er', 'icu') AND age >= 18
GROUP BY
  dept
LIMIT 10000

-- => charged
SELECT
  COUNT(*) AS count
FROM public.visits
LIMIT 10000

-- => free
SELECT
  id AS id,
  name AS name,
  since AS since,
  seen AS seen,
  active AS active
FROM public.staff
LIMIT 100

-- => free
SELECT DISTINCT dept AS column_values 
FROM public.staff 
 LIMIT 100

-- => charged
SELECT
  dept,
  COUNT(*) AS n
FROM visits
WHERE
  age > 30
GROUP BY
  dept

-- => free
SELECT
  *
FROM public.staff
LIMIT 1001

-- => free
EXPLAIN SELECT
  dept,
  COUNT(*)
FROM visits
WHERE
  age > 30
GROUP BY
  dept
