-- tool: JupySQL 0.11.1 with SQLAlchemy 2.1.8
-- source: recorded; tests/clients/tools/run_jupysql.py ran against PostgreSQL 15, and a proxy read the frames

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

-- => charged
SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept

-- => free
WITH by_dept AS (
SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept)
SELECT * FROM by_dept WHERE n > 10 ORDER BY n DESC LIMIT 2

-- => charged
SELECT COUNT(*) AS n FROM visits WHERE age < 50

-- => free
SELECT * FROM staff ORDER BY id LIMIT 5

-- => free
SELECT pg_catalog.pg_class.relname 
FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace 
WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p']) AND pg_catalog.pg_class.relpersistence != 't' AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog'

-- => free
SELECT * FROM visits WHERE 1 = 0

-- => free
SELECT pg_catalog.pg_attribute.attname AS name, pg_catalog.format_type(pg_catalog.pg_attribute.atttypid, pg_catalog.pg_attribute.atttypmod) AS format_type, CASE WHEN pg_catalog.pg_attribute.atthasdef THEN (SELECT pg_catalog.pg_get_expr(pg_catalog.pg_attrdef.adbin, pg_catalog.pg_attrdef.adrelid) AS pg_get_expr_1 
FROM pg_catalog.pg_attrdef 
WHERE pg_catalog.pg_attribute.atthasdef AND pg_catalog.pg_attrdef.adrelid = pg_catalog.pg_attribute.attrelid AND pg_catalog.pg_attrdef.adnum = pg_catalog.pg_attribute.attnum) ELSE NULL END AS "default", pg_catalog.pg_attribute.attnotnull AS not_null, pg_catalog.pg_class.relname AS table_name, pg_catalog.pg_description.description AS comment, pg_catalog.pg_attribute.attgenerated AS generated, CASE WHEN (pg_catalog.pg_attribute.attidentity != '') THEN (SELECT json_build_object('always', pg_catalog.pg_attribute.attidentity = 'a', 'start', pg_catalog.pg_sequence.seqstart, 'increment', pg_catalog.pg_sequence.seqincrement, 'minvalue', pg_catalog.pg_sequence.seqmin, 'maxvalue', pg_catalog.pg_sequence.seqmax, 'cache', pg_catalog.pg_sequence.seqcache, 'cycle', pg_catalog.pg_sequence.seqcycle) AS json_build_object_1 
FROM pg_catalog.pg_sequence 
WHERE pg_catalog.pg_attribute.attidentity != '' AND pg_catalog.pg_sequence.seqrelid = CAST(CAST(pg_catalog.pg_get_serial_sequence(CAST(CAST(pg_catalog.pg_attribute.attrelid AS REGCLASS) AS TEXT), pg_catalog.pg_attribute.attname) AS REGCLASS) AS OID)) ELSE NULL END AS identity_options, CASE WHEN (pg_catalog.pg_attribute.attcollation != 0 AND (SELECT pg_catalog.pg_type.typcollation 
FROM pg_catalog.pg_type 
WHERE pg_catalog.pg_type.oid = pg_catalog.pg_attribute.atttypid) != pg_catalog.pg_attribute.attcollation) THEN (SELECT json_build_object('name', pg_catalog.pg_collation.collname, 'schema', CASE WHEN pg_catalog.pg_collation_is_visible(pg_catalog.pg_collation.oid) THEN NULL ELSE pg_catalog.pg_namespace.nspname END) AS json_build_object_9 
FROM pg_catalog.pg_collation JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_collation.collnamespace 
WHERE pg_catalog.pg_collation.oid = pg_catalog.pg_attribute.attcollation) ELSE NULL END AS collation 
FROM pg_catalog.pg_class LEFT OUTER JOIN pg_catalog.pg_attribute ON pg_catalog.pg_class.oid = pg_catalog.pg_attribute.attrelid AND pg_catalog.pg_attribute.attnum > 0 AND NOT pg_catalog.pg_attribute.attisdropped LEFT OUTER JOIN pg_catalog.pg_description ON pg_catalog.pg_description.objoid = pg_catalog.pg_attribute.attrelid AND pg_catalog.pg_description.objsubid = pg_catalog.pg_attribute.attnum JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace 
WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog' AND pg_catalog.pg_class.relname IN ('visits') ORDER BY pg_catalog.pg_class.relname, pg_catalog.pg_attribute.attnum

-- => free
SELECT * FROM staff WHERE 1 = 0

-- => free
SELECT * FROM staff WHERE 1=0

-- => free
SELECT id FROM staff LIMIT 1

-- => free
SELECT DISTINCT id as top,
                    COUNT(id) as frequency FROM staff
                    GROUP BY top ORDER BY frequency Desc

-- => free
SELECT MIN(id) AS min,
                    MAX(id) AS max,
                    COUNT(id) AS count
                    FROM staff
                    WHERE id IS NOT NULL

-- => free
SELECT
                    COUNT(DISTINCT id) AS unique_count
                    FROM staff
                    WHERE id IS NOT NULL

-- => free
SELECT AVG(id) AS avg
                                FROM staff
                                WHERE id IS NOT NULL

-- => free
SELECT
                        stddev_pop(id) as key_std,
                        percentile_disc(0.25) WITHIN GROUP
                        (ORDER BY id) as key_25,
                        percentile_disc(0.50) WITHIN GROUP
                        (ORDER BY id) as key_50,
                        percentile_disc(0.75) WITHIN GROUP
                        (ORDER BY id) as key_75
                    FROM staff

-- => free
SELECT name FROM staff LIMIT 1

-- => free
SELECT DISTINCT name as top,
                    COUNT(name) as frequency FROM staff
                    GROUP BY top ORDER BY frequency Desc

-- => free
SELECT MIN(name) AS min,
                    MAX(name) AS max,
                    COUNT(name) AS count
                    FROM staff
                    WHERE name IS NOT NULL

-- => free
SELECT
                    COUNT(DISTINCT name) AS unique_count
                    FROM staff
                    WHERE name IS NOT NULL

-- => 42601
SELECT AVG(name) AS avg
                                FROM staff
                                WHERE name IS NOT NULL

-- => 42601
SELECT
                        stddev_pop(name) as key_std,
                        percentile_disc(0.25) WITHIN GROUP
                        (ORDER BY name) as key_25,
                        percentile_disc(0.50) WITHIN GROUP
                        (ORDER BY name) as key_50,
                        percentile_disc(0.75) WITHIN GROUP
                        (ORDER BY name) as key_75
                    FROM staff

-- => free
SELECT dept FROM staff LIMIT 1

-- => free
SELECT DISTINCT dept as top,
                    COUNT(dept) as frequency FROM staff
                    GROUP BY top ORDER BY frequency Desc

-- => free
SELECT MIN(dept) AS min,
                    MAX(dept) AS max,
                    COUNT(dept) AS count
                    FROM staff
                    WHERE dept IS NOT NULL

-- => free
SELECT
                    COUNT(DISTINCT dept) AS unique_count
                    FROM staff
                    WHERE dept IS NOT NULL

-- => 42601
SELECT AVG(dept) AS avg
                                FROM staff
                                WHERE dept IS NOT NULL

-- => 42601
SELECT
                        stddev_pop(dept) as key_std,
                        percentile_disc(0.25) WITHIN GROUP
                        (ORDER BY dept) as key_25,
                        percentile_disc(0.50) WITHIN GROUP
                        (ORDER BY dept) as key_50,
                        percentile_disc(0.75) WITHIN GROUP
                        (ORDER BY dept) as key_75
                    FROM staff

-- => free
SELECT salary FROM staff LIMIT 1

-- => free
SELECT DISTINCT salary as top,
                    COUNT(salary) as frequency FROM staff
                    GROUP BY top ORDER BY frequency Desc

-- => free
SELECT MIN(salary) AS min,
                    MAX(salary) AS max,
                    COUNT(salary) AS count
                    FROM staff
                    WHERE salary IS NOT NULL

-- => free
SELECT
                    COUNT(DISTINCT salary) AS unique_count
                    FROM staff
                    WHERE salary IS NOT NULL

-- => free
SELECT AVG(salary) AS avg
                                FROM staff
                                WHERE salary IS NOT NULL

-- => free
SELECT
                        stddev_pop(salary) as key_std,
                        percentile_disc(0.25) WITHIN GROUP
                        (ORDER BY salary) as key_25,
                        percentile_disc(0.50) WITHIN GROUP
                        (ORDER BY salary) as key_50,
                        percentile_disc(0.75) WITHIN GROUP
                        (ORDER BY salary) as key_75
                    FROM staff

-- => free
SELECT since FROM staff LIMIT 1

-- => free
SELECT DISTINCT since as top,
                    COUNT(since) as frequency FROM staff
                    GROUP BY top ORDER BY frequency Desc

-- => free
SELECT MIN(since) AS min,
                    MAX(since) AS max,
                    COUNT(since) AS count
                    FROM staff
                    WHERE since IS NOT NULL

-- => free
SELECT
                    COUNT(DISTINCT since) AS unique_count
                    FROM staff
                    WHERE since IS NOT NULL

-- => 42601
SELECT AVG(since) AS avg
                                FROM staff
                                WHERE since IS NOT NULL

-- => 42601
SELECT
                        stddev_pop(since) as key_std,
                        percentile_disc(0.25) WITHIN GROUP
                        (ORDER BY since) as key_25,
                        percentile_disc(0.50) WITHIN GROUP
                        (ORDER BY since) as key_50,
                        percentile_disc(0.75) WITHIN GROUP
                        (ORDER BY since) as key_75
                    FROM staff

-- => free
SELECT seen FROM staff LIMIT 1

-- => free
SELECT DISTINCT seen as top,
                    COUNT(seen) as frequency FROM staff
                    GROUP BY top ORDER BY frequency Desc

-- => free
SELECT MIN(seen) AS min,
                    MAX(seen) AS max,
                    COUNT(seen) AS count
                    FROM staff
                    WHERE seen IS NOT NULL

-- => free
SELECT
                    COUNT(DISTINCT seen) AS unique_count
                    FROM staff
                    WHERE seen IS NOT NULL

-- => 42601
SELECT AVG(seen) AS avg
                                FROM staff
                                WHERE seen IS NOT NULL

-- => 42601
SELECT
                        stddev_pop(seen) as key_std,
                        percentile_disc(0.25) WITHIN GROUP
                        (ORDER BY seen) as key_25,
                        percentile_disc(0.50) WITHIN GROUP
                        (ORDER BY seen) as key_50,
                        percentile_disc(0.75) WITHIN GROUP
                        (ORDER BY seen) as key_75
                    FROM staff

-- => free
SELECT active FROM staff LIMIT 1

-- => free
SELECT DISTINCT active as top,
                    COUNT(active) as frequency FROM staff
                    GROUP BY top ORDER BY frequency Desc

-- => free
SELECT MIN(active) AS min,
                    MAX(active) AS max,
                    COUNT(active) AS count
                    FROM staff
                    WHERE active IS NOT NULL

-- => free
SELECT
                    COUNT(DISTINCT active) AS unique_count
                    FROM staff
                    WHERE active IS NOT NULL

-- => 42601
SELECT AVG(active) AS avg
                                FROM staff
                                WHERE active IS NOT NULL

-- => 42601
SELECT
                        stddev_pop(active) as key_std,
                        percentile_disc(0.25) WITHIN GROUP
                        (ORDER BY active) as key_25,
                        percentile_disc(0.50) WITHIN GROUP
                        (ORDER BY active) as key_50,
                        percentile_disc(0.75) WITHIN GROUP
                        (ORDER BY active) as key_75
                    FROM staff

-- => free
SELECT * FROM staff LIMIT 10 OFFSET 0

-- => free
SELECT "dept" AS x, COUNT("dept") AS height FROM staff WHERE NOT "dept" IS NULL GROUP BY "dept"

-- => free
SELECT MIN("salary"), MAX("salary") FROM staff

-- => free
SELECT CEIL(CAST("salary" AS DOUBLE PRECISION) / 2.6666666666666665 - 0.5) * 2.6666666666666665 AS bin, COUNT(*) AS count FROM staff WHERE NOT "salary" IS NULL GROUP BY bin ORDER BY bin NULLS FIRST
