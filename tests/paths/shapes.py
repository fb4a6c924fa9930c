"""Every shape of question that is accepted: the laws of the path run over all of them."""

_WITH = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"

SHAPES = (
    "SELECT COUNT(*) FROM visits",
    "SELECT COUNT(cost) FROM visits",
    "SELECT COUNT(weight), COUNT(score) FROM visits",
    "SELECT COUNT(patient_id) FROM visits",
    "SELECT COUNT(DISTINCT patient_id) FROM visits",
    "SELECT COUNT(DISTINCT dept), COUNT(DISTINCT age) FROM visits",
    "SELECT COUNT(DISTINCT city) FROM visits WHERE urgent",
    "SELECT SUM(cost) FROM visits",
    "SELECT SUM(age) FROM visits",
    "SELECT SUM(DISTINCT cost), AVG(DISTINCT age) FROM visits",
    "SELECT COUNT(*), SUM(cost), AVG(cost) FROM visits",
    "SELECT AVG(age) FROM visits WHERE age BETWEEN 3 AND 7",
    "SELECT VAR_SAMP(cost), STDDEV_POP(age), VAR_POP(age), STDDEV(cost) FROM visits",
    "SELECT COVAR_POP(cost, age), COVAR_SAMP(age, cost), CORR(cost, age), REGR_R2(cost, age) FROM visits",
    "SELECT REGR_SLOPE(cost, age), REGR_INTERCEPT(cost, age), REGR_COUNT(cost, age), AVG(age) FROM visits WHERE urgent",
    "SELECT dept, CORR(cost, age) AS r, REGR_SXX(cost, age), REGR_SYY(cost, age), REGR_SXY(age, cost) FROM visits "
    "GROUP BY dept",
    "SELECT REGR_AVGX(cost, age) FILTER (WHERE urgent), REGR_AVGY(cost, age), CORR(cost, cost) FROM visits",
    "SELECT SUM(cost) / COUNT(*) AS r, SUM(age) + 1 AS s FROM visits",
    "SELECT age, SUM(cost) / NULLIF(age, 0) AS r FROM visits GROUP BY age",
    "SELECT dept, COUNT(*) / NULLIF(LENGTH(dept), 0) AS r FROM visits GROUP BY dept",
    "SELECT age, COUNT(*) / NULLIF(ABS(age - 3), 0) AS r, LN(SUM(cost) / GREATEST(age, 0)) FROM visits GROUP BY age",
    "SELECT SUM(cost * age) FROM visits",
    "SELECT SUM(cost / NULLIF(age, 0)) FROM visits WHERE age > 0",
    "SELECT SUM(LEAST(GREATEST(score, -2), 3)) FROM visits",
    "SELECT SUM(CASE WHEN score BETWEEN 0 AND 9 THEN score ELSE 0 END) FROM visits",
    "SELECT SUM(CASE WHEN urgent THEN cost END) FROM visits",
    "SELECT SUM(cost) FILTER (WHERE dept = 'er'), COUNT(*) FILTER (WHERE urgent) FROM visits",
    "SELECT SUM(LENGTH(dept)) FROM visits WHERE LENGTH(dept) BETWEEN 1 AND 9",
    "SELECT SUM(EXTRACT(month FROM day)), AVG(year(day)) FROM visits",
    "SELECT SUM(day - DATE '2024-01-01') FROM visits",
    "SELECT SUM(SQRT(age)), SUM(POWER(age, 2)), SUM(ABS(cost)), SUM(ROUND(cost)) FROM visits",
    "SELECT SUM(LN(age)), SUM(EXP(LEAST(cost, 3) / 700)), AVG(POWER(cost, 0.7)) FROM visits WHERE LOG(2, age + 1) < 3",
    "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept",
    "SELECT dept, COUNT(*), SUM(cost), AVG(cost) FROM visits GROUP BY dept ORDER BY 2 DESC LIMIT 2",
    "SELECT dept, COUNT(DISTINCT patient_id) FROM visits GROUP BY dept HAVING COUNT(*) > 1",
    "SELECT dept, urgent, COUNT(*) FROM visits GROUP BY dept, urgent",
    "SELECT age / 5 AS bucket, SUM(cost) FROM visits GROUP BY 1",
    "SELECT FLOOR(cost) AS f, COUNT(*) FROM visits GROUP BY f",
    "SELECT width_bucket(cost, 0, 10, 5) AS b, COUNT(*) FROM visits GROUP BY b",
    "SELECT date_trunc('month', day) AS m, COUNT(*), VAR_POP(age) FROM visits GROUP BY m",
    "SELECT EXTRACT(dow FROM seen) AS d, COUNT(*) FROM visits GROUP BY 1",
    "SELECT CASE WHEN age < 10 THEN 'young' ELSE 'old' END AS g, AVG(cost) FROM visits GROUP BY g",
    "SELECT city, COUNT(*) FROM visits GROUP BY city",
    "SELECT city, COUNT(DISTINCT patient_id), SUM(age) FROM visits GROUP BY city",
    "SELECT city, COUNT(*) FROM visits WHERE city IN ('rome', 'oslo') GROUP BY city",
    "SELECT upper(city) AS c, dept, COUNT(*) FROM visits GROUP BY 1, 2",
    "SELECT score, COUNT(*) FROM visits GROUP BY score",
    "SELECT score * 1000 + age AS k, MEDIAN(age) FROM visits GROUP BY k",
    "SELECT city, COUNT(*), COUNT(DISTINCT patient_id), SUM(age) FROM visits WHERE age > 2 GROUP BY city",
    "SELECT v.city, COUNT(*), COUNT(DISTINCT v.age) FROM visits v JOIN staff s ON v.dept = s.dept GROUP BY v.city",
    "SELECT SUM(age), SUM(age) FILTER (WHERE urgent), SUM(LEAST(age, 15)) FROM visits WHERE age > 1",
    "SELECT dept, STDDEV(LN(age + 1)), CORR(SQRT(age), LN(age + 2)) FROM visits GROUP BY dept",
    "SELECT DISTINCT city FROM visits",
    "SELECT dept, TRUE AS x, COUNT(*) FROM visits GROUP BY dept ORDER BY 2, 'a', 1 + 1",
    "SELECT COALESCE(dept, 'none') AS d, COUNT(*) FROM visits GROUP BY d",
    "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) t",
    "SELECT n, COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) t GROUP BY n",
    "SELECT SUM(s), COUNT(s), AVG(m) FROM (SELECT patient_id, SUM(cost) AS s, MAX(age) AS m FROM visits GROUP BY 1) t",
    "SELECT SUM(a) FROM (SELECT patient_id, AVG(cost) AS a FROM visits GROUP BY 1 HAVING COUNT(*) > 1) t WHERE a > 0",
    "SELECT dept, SUM(n) FROM (SELECT patient_id, dept, COUNT(*) AS n FROM visits GROUP BY 1, 2) t GROUP BY dept",
    "SELECT s.floor, COUNT(*) FROM visits v JOIN staff s ON v.dept = s.dept GROUP BY s.floor",
    "SELECT s.name, SUM(v.cost) FROM visits v LEFT JOIN staff s ON v.dept = s.dept GROUP BY s.name",
    "SELECT s.name, s.floor, COUNT(*) FROM visits v JOIN staff s ON v.dept = s.dept GROUP BY 1, 2",
    "SELECT date_trunc('month', seen) AS m, COUNT(DISTINCT patient_id) FROM visits GROUP BY 1",
    "SELECT CAST(date_trunc('week', seen) AS date) AS w, SUM(cost) FROM visits GROUP BY 1",
    "SELECT SUM(s.floor), COUNT(*) FROM visits v JOIN staff s ON v.dept = s.dept",
    "SELECT COUNT(*) FROM visits v, staff s WHERE v.age < s.floor",
    "SELECT p.sex, COUNT(*), SUM(v.cost) FROM visits v JOIN patients p ON v.patient_id = p.patient_id GROUP BY p.sex",
    "SELECT SUM(p.income + v.age) FROM visits v JOIN patients p USING (patient_id)",
    "SELECT COUNT(*), COUNT(p.income), COUNT(DISTINCT p.patient_id) FROM visits v LEFT JOIN patients p "
    "USING (patient_id)",
    "SELECT COUNT(p.patient_id) FROM visits v LEFT JOIN patients p ON v.patient_id = p.patient_id AND v.age > 5",
    "SELECT COUNT(*), SUM(n) FROM (SELECT v.patient_id, p.patient_id AS other, COUNT(*) AS n FROM visits v "
    "LEFT JOIN patients p ON v.patient_id = p.patient_id AND v.age > 5 GROUP BY 1, 2) t",
    "SELECT s.name IS NULL AS alone, COUNT(*) FROM visits v LEFT JOIN staff s ON v.dept = s.dept GROUP BY 1",
    "SELECT UPPER(COALESCE(s.name, 'none')) AS who, COUNT(*) FROM visits v LEFT JOIN staff s USING (dept) GROUP BY 1",
    "SELECT s.name || s.floor AS who, COUNT(*) FROM visits v JOIN staff s ON v.dept = s.dept GROUP BY 1",
    "SELECT COUNT(*) FROM visits v JOIN (SELECT dept FROM staff ORDER BY dept LIMIT 2) s ON v.dept = s.dept",
    "SELECT w.x, COUNT(*) FROM visits v JOIN (VALUES ('er', 1), ('er', 2), ('icu', 3)) AS w (d, x) ON v.dept = w.d "
    "GROUP BY 1",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id WHERE a.age < b.age",
    'SELECT COUNT(*), SUM(removed_rows) FROM "visits.removed"',
    'SELECT dept, SUM(r.removed_rows) FROM visits v JOIN "visits.removed" r USING (patient_id) GROUP BY dept',
    "SELECT APPROX_TOP_K(city, 1) FROM visits",
    "SELECT city, COUNT(*) FROM visits GROUP BY city ORDER BY 2 DESC, 1 LIMIT 2",
    "SELECT age, COUNT(DISTINCT patient_id), SUM(cost) FROM visits GROUP BY age ORDER BY 2 DESC LIMIT 1",
    "SELECT age, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY age HAVING COUNT(DISTINCT patient_id) >= 1 "
    "ORDER BY n DESC LIMIT 1 OFFSET 1",
    "SELECT city, SUM(age) FILTER (WHERE urgent) AS s FROM visits GROUP BY city ORDER BY s DESC LIMIT 2",
    "SELECT dept, MODE(city) AS m FROM visits GROUP BY dept ORDER BY dept",
    "SELECT HISTOGRAM(day) FROM visits",
    "SELECT HISTOGRAM(cost, (-5, 0.5, 10)) FILTER (WHERE urgent) FROM visits",
    "SELECT SEM(age), WEIGHTED_AVG(cost, age), APPROX_COUNT_DISTINCT(city), COUNT(make_date(2024, age, 1)) FROM visits",
    "SELECT dept, GEOMEAN(age), SUM(IIF(urgent, age, 1)) FROM visits GROUP BY dept",
    "SELECT MEDIAN(age), QUANTILE_DISC(age, 0.9), COUNT(*) FROM visits",
    "SELECT dept, MEDIAN(cost), MIN(cost), MAX(cost) FROM visits GROUP BY dept",
    "SELECT city, PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age DESC) FROM visits GROUP BY city",
    "SELECT MODE(age), APPROX_QUANTILE(cost, 0.3), MEDIAN(age) FILTER (WHERE urgent), MIN(day) FROM visits",
    "SELECT dept, COUNT(*) FROM (SELECT patient_id, dept FROM visits WHERE urgent EXCEPT SELECT patient_id, dept "
    "FROM visits WHERE age > 5) t GROUP BY dept",
    "SELECT COUNT(*) FROM (SELECT patient_id, city FROM visits INTERSECT ALL SELECT patient_id, ward FROM patients) t",
    "SELECT p.ward, COUNT(*), COUNT(DISTINCT v.patient_id) FROM visits v JOIN patients p USING (patient_id) GROUP BY 1",
    "SELECT p.sex, MEDIAN(p.income), MAX(v.age) FROM visits v JOIN patients p USING (patient_id) GROUP BY p.sex",
    "SELECT MEDIAN(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) t",
    "SELECT AVG(m) FROM (SELECT patient_id, QUANTILE_DISC(cost, 0.5) AS m FROM visits GROUP BY 1) t",
    "SELECT MEDIAN(n), QUANTILE_DISC(n, 0.75) FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) t",
    "SELECT MEDIAN(x) FROM survey",
    "SELECT ward, COUNT(*) FROM patients GROUP BY ward",
    "SELECT COUNT(*), SUM(x), AVG(x) FROM survey",
    "SELECT mood, COUNT(*), SUM(x) FROM survey GROUP BY mood",
    "SELECT s.name, COUNT(*) FROM survey q JOIN staff s ON q.mood = s.dept GROUP BY s.name",
    "SELECT a.n, b.n FROM (SELECT COUNT(*) AS n FROM visits) a, (SELECT SUM(x) AS n FROM survey) b",
    "SELECT AVG(n) AS mean FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) t",
    "SELECT dept, SUM(cost) FROM visits WHERE dept NOT IN (SELECT dept FROM staff WHERE floor > 2) GROUP BY dept",
    "SELECT city, COUNT(*) FROM visits WHERE city IN (SELECT name FROM staff UNION SELECT 'rome') GROUP BY city",
    "SELECT SUM(age) FROM visits v WHERE urgent OR NOT EXISTS (SELECT 1 FROM staff s WHERE s.floor > v.age)",
    "SELECT CASE WHEN city IN (SELECT name FROM staff) OR dept IN (SELECT dept FROM staff) THEN 'in' ELSE 'out' END, "
    "COUNT(*), SUM(cost) FROM visits GROUP BY 1",
    "SELECT SUM(age * (SELECT MAX(floor) FROM staff s WHERE s.dept = v.dept)), COUNT(*) FILTER (WHERE age > (SELECT "
    "AVG(floor) FROM staff)) FROM visits v",
    "SELECT n, COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visits WHERE dept IN (SELECT dept FROM staff) "
    "GROUP BY 1) t WHERE n >= (SELECT MIN(floor) FROM staff) GROUP BY n",
    "SELECT COUNT(*), SUM(r) FROM visits v JOIN (SELECT dept, ROW_NUMBER() OVER (PARTITION BY dept ORDER BY floor) AS "
    "r FROM staff UNION ALL SELECT 'er', 5) s ON v.dept = s.dept",
    "SELECT SUM(v.cost) FROM visits v, staff s WHERE (v.dept = s.dept AND s.floor = 1) OR (v.dept = s.dept AND "
    "v.age > 3)",
    "SELECT dept, COUNT(*), SUM(COUNT(*)) OVER (ORDER BY dept), RANK() OVER (ORDER BY SUM(cost) DESC), COUNT(*) - "
    "LAG(COUNT(*)) OVER (ORDER BY dept) FROM visits GROUP BY dept QUALIFY ROW_NUMBER() OVER (ORDER BY dept) <= 2",
    "WITH g AS (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) SELECT g.dept, n, m FROM g FULL JOIN (SELECT "
    "ward, COUNT(*) AS m FROM patients GROUP BY ward) w ON g.dept = w.ward WHERE n > (SELECT AVG(n) FROM g) UNION "
    "ALL SELECT 'all', COUNT(DISTINCT patient_id), 0 FROM visits",
    _WITH + "(max_groups_contributed = 1) dept, COUNT(DISTINCT patient_id) FROM visits GROUP BY dept",
    _WITH + "(max_groups_contributed = 1) dept, COUNT(DISTINCT age), COUNT(DISTINCT city) FROM visits GROUP BY dept",
    _WITH + "(max_rows_contributed = 2) dept, SUM(cost), COUNT(DISTINCT age) FROM visits GROUP BY dept",
    _WITH + "(max_groups_contributed = 2) city, COUNT(*), SUM(age), COUNT(DISTINCT dept) FROM visits GROUP BY city",
    "SELECT dept, urgent, COUNT(*), SUM(cost) FROM visits GROUP BY ROLLUP (dept, urgent)",
    "SELECT dept, urgent, COUNT(*) AS n, GROUPING(dept) AS g FROM visits GROUP BY CUBE (dept, urgent)",
    "SELECT d.n, t.n FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) d, (SELECT "
    "COUNT(*) AS n FROM visits) t",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM patients p WHERE p.patient_id = v.patient_id)",
    "SELECT COUNT(*) FROM patients WHERE patient_id NOT IN (SELECT patient_id FROM visits WHERE cost > 2)",
    "SELECT SUM(age) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = "
    "v.patient_id AND w.cost < v.cost)",
    "SELECT AVG(cost) FROM (SELECT cost, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY "
    "day) AS k FROM visits) t WHERE k = 1",
    "SELECT SUM(c) FROM (SELECT COUNT(*) OVER (PARTITION BY patient_id ORDER BY score DESC RANGE BETWEEN 5 PRECEDING "
    "AND 7 FOLLOWING) AS c FROM visits) t",
    "SELECT SUM(c) FROM (SELECT COUNT(*) OVER (PARTITION BY patient_id ORDER BY CASE WHEN urgent THEN "
    "9000000000000000000 ELSE 0 END RANGE BETWEEN CURRENT ROW AND 900000000000000000 FOLLOWING) AS c FROM visits) t",
    "SELECT COUNT(*) FROM (SELECT LAG(age, 1, score * 1000) OVER (PARTITION BY patient_id ORDER BY day) AS c FROM "
    "visits) t WHERE c > 0",
    "SELECT SUM(g) FROM (SELECT age - LAG(age) OVER (PARTITION BY patient_id ORDER BY day) AS g FROM visits) t",
    "SELECT dept, COUNT(*) FROM (SELECT dept, COUNT(*) OVER (PARTITION BY patient_id) AS c "
    "FROM visits) t WHERE c > 1 GROUP BY dept",
    "SELECT COUNT(*), SUM(k) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY v.patient_id ORDER BY s.floor) AS k FROM "
    "visits v JOIN staff s ON v.dept = s.dept) t WHERE k <= 2",
    "SELECT COUNT(*), SUM(x) FROM (SELECT patient_id, age AS x FROM visits UNION ALL SELECT "
    "patient_id, 1 FROM patients) t",
    "SELECT s.name, COUNT(v.patient_id), SUM(v.cost) FROM staff s LEFT JOIN visits v ON v.dept "
    "= s.dept GROUP BY s.name",
    "SELECT a.urgent, COUNT(*) / 2 AS n FROM visits a JOIN visits b ON a.urgent = b.urgent AND a.score = b.score "
    "AND a.patient_id <> b.patient_id WHERE a.age > 2 AND b.city <> 'rome' GROUP BY a.urgent HAVING COUNT(*) > 0",
    "SELECT COUNT(*) FROM visits v JOIN staff s ON v.dept = s.dept JOIN patients p ON s.name = p.ward "
    "AND NOT v.patient_id = p.patient_id",
    "SELECT a.dept, COUNT(*) FROM visits a, visits b, visits c WHERE a.dept = b.dept AND c.dept = b.dept AND "
    "a.patient_id <> b.patient_id AND b.patient_id IS DISTINCT FROM c.patient_id AND a.patient_id <> c.patient_id "
    "GROUP BY a.dept",
    "SELECT dept, COUNT(*) FROM (SELECT DISTINCT ON (patient_id) patient_id, dept FROM visits ORDER BY patient_id, "
    "day DESC, age) t GROUP BY dept",
    "SELECT u, a, COUNT(*) FROM (SELECT patient_id, BOOL_OR(urgent) AS u, BOOL_AND(age > 3) FILTER (WHERE urgent) AS a "
    "FROM visits GROUP BY 1) t GROUP BY u, a",
    "SELECT s.d, COUNT(v.patient_id), SUM(v.cost) FROM generate_series(1, 4) AS s(d) LEFT JOIN visits v ON v.age = s.d "
    "GROUP BY s.d HAVING d > 1 ORDER BY ALL",
    "SELECT COUNT(*) FROM visits WHERE city ~ '^(ro|o).*m$' OR city SIMILAR TO '%(s|r)%' OR (dept, age) IN (('er', 3), "
    "('icu', 5))",
    "SELECT last_day(day) AS m, split_part(dept, 'r', 1) AS d, COUNT(*) FROM visits WHERE contains(city, 'o') AND "
    "lpad(dept, 2, '0') <> 'er' GROUP BY 1, 2",
    "SELECT concat_ws('/', dept, urgent) AS k, COUNT(*) FROM visits WHERE date(seen) < '2024-06-01' AND "
    "weekday(day) > 0 GROUP BY k",
    "SELECT COUNT(*) FROM (SELECT MAX(urgent) OVER (PARTITION BY patient_id) AS u, MIN(urgent) OVER (PARTITION BY "
    "patient_id ORDER BY day) AS a FROM visits) t WHERE u AND NOT a",
    "SELECT HISTOGRAM(age, 4) FROM visits",
    "SELECT strftime(day, '%Y-%m') AS m, date_diff('day', DATE '2024-01-01', day) // 90 AS q, COUNT(*) FROM visits "
    "WHERE to_char(day, 'Q') <> '3' AND date_part('month', seen) > 1 GROUP BY GROUPING SETS ((1), (2), ())",
    "SELECT * FROM (SELECT dept, urgent, cost FROM visits) t PIVOT (SUM(cost) FOR urgent IN (TRUE, FALSE))",
    "SELECT ARG_MAX(dept, n) AS d, MAX(n) AS n FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) t",
    "SELECT dept, QUANTILE_CONT(age, 0.9), PERCENTILE_DISC(0.1) WITHIN GROUP (ORDER BY cost) FROM visits GROUP BY dept",
    "SELECT dept, SKEWNESS(cost) FILTER (WHERE urgent), KURTOSIS(age), VAR_POP(age) FROM visits GROUP BY dept "
    "HAVING KURTOSIS(age) < 40",
    "SELECT urgent, COUNT(*) FILTER (WHERE dept = 'er') AS e, COUNT(*) FILTER (WHERE dept = 'icu') AS i, SUM(CASE WHEN "
    "dept = 'surgery' THEN age ELSE 0 END) AS s FROM visits GROUP BY urgent",
    "SELECT COUNT(*) FROM patients p WHERE p.income < (SELECT SUM(age) FROM visits v WHERE v.patient_id = "
    "p.patient_id)",
    "SELECT COUNT(*), SUM(age) FROM visits v WHERE v.cost >= (SELECT MAX(cost) FROM visits w WHERE w.patient_id = "
    "v.patient_id AND w.dept = v.dept)",
    "SELECT SUM(age) FROM visits WHERE patient_id IN (SELECT patient_id FROM visits GROUP BY patient_id HAVING "
    "COUNT(*) > 1)",
    "SELECT sex, COUNT(*) FROM patients p WHERE (SELECT COUNT(*) FROM visits v WHERE v.patient_id = p.patient_id AND "
    "v.urgent) = 0 GROUP BY sex",
    "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age) AS n, SUM(SUM(cost)) OVER (ORDER BY age) AS c FROM visits "
    "GROUP BY age",
    "SELECT COUNT(*) FILTER (WHERE age < 4), COUNT(*) FILTER (WHERE age BETWEEN 2 AND 8), COUNT(*) FILTER (WHERE "
    "age >= 6), COUNT(*) FILTER (WHERE age BETWEEN 3 AND 11), COUNT(*) FILTER (WHERE age = 5) FROM visits",
)
