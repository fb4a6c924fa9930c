-- tool: Grafana
-- source: taken from Grafana's public source: postgresMetaQuery.ts at commit 12f912ab8d01 (version, schemas, tables, columns) and macros.go at commit 02ab314b81e2 ($__timeFilter, $__timeGroup, $__timeEpoch, $__unixEpochFilter, $__unixEpochGroup) of grafana-postgresql-datasource; the questions around the macros are ours. Line breaks are left out. Not a capture

-- => free
SELECT 1

-- => free
SELECT current_setting('server_version_num')::int/100 as version

-- => free
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'

-- => free
SELECT schema_name AS "name" FROM information_schema.schemata WHERE schema_name NOT IN ('information_schema', 'pg_catalog', 'pg_toast', '_timescaledb_cache', '_timescaledb_catalog', '_timescaledb_internal', '_timescaledb_config', 'timescaledb_information', 'timescaledb_experimental') ORDER BY schema_name

-- => free
SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1), array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i, string_to_array(current_setting('search_path'), ',') s) THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache', '_timescaledb_catalog', '_timescaledb_internal', '_timescaledb_config', 'timescaledb_information', 'timescaledb_experimental') ORDER BY CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1), array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i, string_to_array(current_setting('search_path'), ',') s) THEN 0 ELSE 1 END, 1

-- => free
SELECT quote_ident(table_name) AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) = 'public' ORDER BY 1

-- => free
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE CASE WHEN array_length(parse_ident('public.visits'), 1) = 2 THEN quote_ident(table_schema) = (parse_ident('public.visits'))[1] AND quote_ident(table_name) = (parse_ident('public.visits'))[2] ELSE quote_ident(table_name) = 'public.visits' AND quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1), array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i, string_to_array(current_setting('search_path'), ',') s) END

-- => charged
SELECT day AS "time", COUNT(*) AS n FROM visits WHERE day BETWEEN '2024-01-08T00:00:00Z' AND '2024-01-14T00:00:00Z' GROUP BY day ORDER BY day

-- => free
SELECT day AS "time", COUNT(*) AS n FROM visits WHERE day BETWEEN '2024-01-08T00:00:00Z' AND '2024-01-14T00:00:00Z' GROUP BY day ORDER BY day LIMIT 50

-- => charged
SELECT floor(extract(epoch from day)/604800)*604800 AS "time", dept AS metric, avg(cost) AS value FROM visits WHERE day BETWEEN '2024-01-01T00:00:00Z' AND '2024-01-28T23:59:59.999Z' GROUP BY 1, 2 ORDER BY 1

-- => free
SELECT floor(extract(epoch from day)/604800)*604800 AS "time", dept AS metric, avg(cost) AS value, dp_low(avg(cost)) AS value_low, dp_high(avg(cost)) AS value_high FROM visits WHERE day BETWEEN '2024-01-01T00:00:00Z' AND '2024-01-28T23:59:59.999Z' GROUP BY 1, 2 ORDER BY 1

-- => charged
SELECT extract(epoch from day) as "time", sum(cost) AS cost FROM visits WHERE extract(epoch from day) >= 1704067200 AND extract(epoch from day) <= 1706486399 GROUP BY 1 ORDER BY 1

-- => charged
SELECT dept AS metric, AVG(cost) AS value FROM visits WHERE day >= '2024-01-08T00:00:00Z' AND day <= '2024-01-14T00:00:00Z' GROUP BY dept

-- => free
SELECT DISTINCT dept FROM staff ORDER BY dept

-- => 42501
SELECT * FROM visits LIMIT 50

-- => charged
SELECT floor((age)/10)*10 AS "time", count(*) AS n FROM visits GROUP BY 1 ORDER BY 1

-- => charged
SELECT dept AS metric, COUNT(*) AS n FROM visits WHERE dept IN ('er','icu') AND day BETWEEN '2024-01-08T00:00:00.123456789Z' AND '2024-01-20T23:59:59.999Z' GROUP BY dept
