-- free
SELECT current_setting('server_version_num')::int/100 as version

-- free
SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1), array_upper(string_to_array(current_setting('search_path'),','),1)) as i, string_to_array(current_setting('search_path'),',') s) THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') ORDER BY 1

-- free
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE quote_ident(table_name) = 'visits'

-- charged
SELECT day AS "time", COUNT(*) AS n FROM visits WHERE day BETWEEN '2024-01-08T00:00:00Z' AND '2024-01-14T00:00:00Z' GROUP BY day ORDER BY day

-- free
SELECT day AS "time", COUNT(*) AS n FROM visits WHERE day BETWEEN '2024-01-08T00:00:00Z' AND '2024-01-14T00:00:00Z' GROUP BY day ORDER BY day

-- charged
SELECT dept AS metric, AVG(cost) AS value FROM visits WHERE day >= '2024-01-08T00:00:00Z' AND day <= '2024-01-14T00:00:00Z' GROUP BY dept
