-- free
select pg_catalog.version()

-- free
SELECT * FROM visits WHERE 1 = 0

-- free
SELECT 1 FROM visits LIMIT 1

-- charged
SELECT count(*) AS "table.row_count" FROM visits

-- charged
SELECT sum(CASE WHEN (cost IS NULL) THEN 1 ELSE 0 END) AS "column_values.nonnull.unexpected_count" FROM visits

-- charged
SELECT min(age) AS "column.min", max(age) AS "column.max" FROM visits

-- free
SELECT count(*) AS "table.row_count", sum(CASE WHEN (name IS NULL) THEN 1 ELSE 0 END) AS "column_values.nonnull.unexpected_count" FROM staff
