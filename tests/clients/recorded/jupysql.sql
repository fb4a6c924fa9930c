-- free
SELECT 1

-- free
SELECT * FROM visits WHERE 1 = 0

-- free
SELECT 1 FROM visits LIMIT 1

-- charged
SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept

-- free
SELECT * FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) AS named WHERE n > 10 ORDER BY n DESC LIMIT 2

-- free
SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'visits'
