"""What a hostile analyst tried on the path: shapes that few would write, and what they must not tell or break."""

# ruff: noqa: S608 - questions are written by hand here, never from anybody's input
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.paths.test_sensitivity import Opened, _check
from tests.paths.worlds import World, policy, visit, write
from tests.refusals import refusing

import sfumato
from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.duckdb.registration import register
from sfumato.engines.engine import Limits
from sfumato.errors import QueryTooLarge, UnsupportedSql
from sfumato.policy.reading import read_policy

_WITH = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
_OWN = "(SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)"
_URGENT = "visits v LEFT JOIN patients p ON v.patient_id = p.patient_id AND v.urgent"

CLINIC = (
    # ids of an outer-joined table
    "SELECT COUNT(p.patient_id), COUNT(DISTINCT p.patient_id) FROM visits v LEFT JOIN patients p USING (patient_id)",
    "SELECT v.dept, COUNT(p.patient_id) FROM visits v LEFT JOIN patients p USING (patient_id) GROUP BY v.dept",
    f"SELECT COUNT(*), SUM(n) FROM (SELECT v.patient_id AS a, p.patient_id AS b, COUNT(*) AS n FROM {_URGENT} "
    "GROUP BY v.patient_id, p.patient_id) t",
    f"SELECT COUNT(*) FROM visits x JOIN (SELECT v.patient_id, p.patient_id AS b, v.dept FROM {_URGENT} "
    "GROUP BY v.patient_id, p.patient_id, v.dept) t ON x.patient_id = t.patient_id AND x.dept = t.dept",
    # one person's rows with each other
    "SELECT COUNT(*) FROM visits a LEFT JOIN patients p USING (patient_id) LEFT JOIN visits c "
    "ON c.patient_id = p.patient_id AND c.dept = a.dept",
    "SELECT c.dept, COUNT(*) FROM visits a LEFT JOIN visits c ON a.patient_id = c.patient_id AND a.age < c.age "
    "GROUP BY c.dept",
    "SELECT COUNT(*) FROM visits a JOIN (SELECT patient_id, dept FROM visits GROUP BY 1, 2) t "
    "ON a.patient_id = t.patient_id AND a.dept = t.dept",
    f"SELECT t.n, v.dept, COUNT(*), COUNT(DISTINCT v.patient_id) FROM visits v JOIN {_OWN} t USING (patient_id) "
    "GROUP BY 1, 2",
    f"SELECT CASE WHEN t.n > 1 THEN 'many' ELSE 'few' END AS g, SUM(v.cost) FROM visits v LEFT JOIN {_OWN} t "
    "USING (patient_id) GROUP BY 1",
    "SELECT SUM(m) FROM (SELECT patient_id, SUM(n) AS m FROM (SELECT patient_id, dept, COUNT(*) AS n FROM visits "
    "GROUP BY 1, 2) x GROUP BY 1) t",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM (SELECT patient_id, dept, COUNT(*) AS n FROM visits GROUP BY 1, 2) x "
    "GROUP BY 1, x.n) t",
    'SELECT COUNT(*), SUM(r.removed_rows) FROM visits v JOIN "visits.removed" r ON v.patient_id = r.patient_id',
    # public rows, met in odd ways
    "SELECT COUNT(*), SUM(t.k) FROM visits v JOIN (VALUES ('er', 1.5), ('er', 2), ('icu', NULL), (NULL, 4)) AS t(d, k) "
    "ON v.dept = t.d",
    "SELECT COUNT(*), SUM(t.k) FROM visits v LEFT JOIN (VALUES (1.5, 1.5), (1.5, 2), (0, 9)) AS t(d, k) "
    "ON v.weight = t.d",
    "SELECT t.k, COUNT(*) FROM visits v JOIN (VALUES (true, -4), (true, 5), (false, 6)) AS t(d, k) ON v.urgent = t.d "
    "GROUP BY t.k",
    "SELECT COUNT(*) FROM visits v JOIN staff s ON v.dept = s.dept OR v.dept = s.name",
    "SELECT COUNT(*) FROM visits v JOIN staff s ON v.dept IS NOT DISTINCT FROM s.dept",
    "SELECT COUNT(*) FROM visits v JOIN staff s ON coalesce(v.dept, 'er') = s.dept",
    "SELECT COUNT(*) FROM visits v JOIN staff s ON v.cost = s.floor * 0.5 AND s.dept = s.dept",
    "SELECT COUNT(*) FROM visits v JOIN (SELECT dept, floor FROM staff ORDER BY floor LIMIT 1) s ON v.dept = s.dept",
    "SELECT s.floor, COUNT(*) FROM visits v LEFT JOIN (SELECT s.dept, r.floor FROM staff s LEFT JOIN staff r "
    "ON s.dept = r.dept AND r.floor = 2) s ON v.dept = s.dept GROUP BY 1",
    _WITH + "(max_rows_contributed = 1) s.name, COUNT(*), SUM(q.x) FROM survey q LEFT JOIN staff s "
    "ON q.mood = s.dept GROUP BY s.name",
    _WITH + "(max_groups_contributed = 1) q.mood, COUNT(*), SUM(q.x) FROM survey q CROSS JOIN staff s GROUP BY q.mood",
    _WITH + "(max_rows_contributed = 2) a.dept, COUNT(*), SUM(b.cost), COUNT(DISTINCT b.age) FROM visits a "
    "JOIN visits b ON a.patient_id = b.patient_id GROUP BY 1",
    # what a condition says of values, and what it does not
    "SELECT SUM(CASE WHEN score NOT BETWEEN 0 AND 9 THEN 1 ELSE score END) FROM visits",
    "SELECT SUM(CASE WHEN score > 5 OR score < -5 OR score IS NULL THEN 0 ELSE score END) FROM visits",
    "SELECT SUM(CASE WHEN NOT (score <= 5 AND score >= -5) THEN 0 ELSE score END) FROM visits",
    "SELECT SUM(CASE score WHEN 5 THEN score WHEN 0 THEN score END) FROM visits",
    "SELECT SUM(score) FROM visits WHERE score * 0.1 BETWEEN 0 AND 1",
    "SELECT SUM(score) FROM visits WHERE score > 3 AND score < 2",
    "SELECT SUM(NULLIF(score, 3)), SUM(-score) FROM visits WHERE score BETWEEN 0 AND 9",
    "SELECT SUM(age) FILTER (WHERE age > 5 OR urgent), SUM(age) FILTER (WHERE NOT (age < 5 AND urgent)) FROM visits",
    "SELECT SUM(age) FROM visits WHERE day < TIMESTAMP '2024-03-01' AND seen < DATE '2024-03-01'",
    "SELECT SUM(age), COUNT(age), AVG(age), VAR_SAMP(age) FROM visits WHERE age = 7",
    "SELECT SUM(-3), AVG(-3), STDDEV(0), SUM(DISTINCT 5), SUM(NULL) FROM visits",
    "SELECT SUM(age * 0.1), SUM(age / 3), SUM(age / 3.0), SUM(cost % age), SUM(1.0 / cost) FROM visits",
    "SELECT SUM(score % 7), SUM(SIGN(weight)), SUM(weight::integer % 5) FROM visits",
    # keys
    "SELECT dept, COUNT(*) FROM visits WHERE dept = 'er' AND dept = 'icu' GROUP BY dept",
    "SELECT city, COUNT(*) FROM visits WHERE city IN ('nowhere', 'rome', NULL) GROUP BY city",
    "SELECT dept, COUNT(*) FROM visits WHERE LOWER(dept) IN ('nowhere', 'er', NULL) GROUP BY dept",
    "SELECT NULL AS k, 1 AS one, COUNT(*) FROM visits GROUP BY 1, 2",
    "SELECT -age AS b, FLOOR(cost / 3) AS f, COUNT(*) FROM visits GROUP BY 1, 2",
    "SELECT v.age + s.floor AS k, COUNT(*) FROM visits v JOIN staff s ON v.dept = s.dept GROUP BY 1",
    "SELECT COALESCE(city, 'none') AS k, COUNT(*) FROM visits WHERE city IN ('rome') GROUP BY 1",
    "SELECT COUNT(DISTINCT age % 3), COUNT(DISTINCT urgent), COUNT(DISTINCT weight) FROM visits",
    "SELECT dept, VAR_POP(DISTINCT cost), AVG(DISTINCT cost), SUM(cost) FROM visits GROUP BY 1",
)
"""Questions about the clinic."""

SHOP = (
    "SELECT s, COUNT(*), SUM(q) FROM lines GROUP BY s",
    "SELECT COUNT(*), SUM(l.q), SUM(o.tot) FROM lines l JOIN orders o ON l.lk = o.ok",
    "SELECT COUNT(*), SUM(l.q), COUNT(o.cust) FROM lines l LEFT JOIN orders o ON l.lk = o.ok",
    "SELECT COUNT(*) FROM orders o LEFT JOIN lines l ON l.lk = o.ok",
    "SELECT COUNT(*) FROM orders a JOIN orders b ON a.ok = b.ok",
    "SELECT o.ok, SUM(l.q) FROM lines l JOIN orders o ON l.lk = o.ok GROUP BY 1",
    "SELECT l.s, p.r, COUNT(*), SUM(p.r) FROM lines l JOIN sup p ON l.s = p.s GROUP BY 1, 2",
    "SELECT p.s, COUNT(*) FROM lines l LEFT JOIN sup p ON l.s = p.s GROUP BY 1",
    "SELECT e.s, p.r, COUNT(*), SUM(e.x) FROM ev e CROSS JOIN sup p GROUP BY 1, 2",
    "SELECT COUNT(*), SUM(t.n) FROM lines l LEFT JOIN (SELECT cust, tot, COUNT(*) AS n FROM orders GROUP BY 1, 2) t "
    "ON t.tot = l.q",
    # a double may equal several integers, and a column that is unique on its grid is not so among doubles
    "SELECT COUNT(*), SUM(o.tot) FROM lines l JOIN orders o ON l.w = o.wide",
    "SELECT COUNT(*) FROM lines l LEFT JOIN (SELECT cust, wide FROM orders GROUP BY 1, 2) t ON l.w = t.wide",
)
"""Questions about a shop whose lines belong to a customer through their order."""

_EVEN = 1 << 53
_SHOP_TYPES = {
    "orders": {"ok": pa.int64(), "cust": pa.int64(), "tot": pa.int64(), "wide": pa.int64()},
    "lines": {"lk": pa.int64(), "q": pa.int64(), "s": pa.string(), "w": pa.float64()},
    "sup": {"s": pa.string(), "r": pa.int64()},
    "ev": {"x": pa.int64(), "s": pa.string()},
}


class Shop(Opened):
    """The engine of a shop without the customers and the event that are left out."""

    def __init__(self, folder: Path, without: int | None = None, without_event: int | None = None) -> None:
        random = Random(5)
        orders = [{"ok": k, "cust": k % 3, "tot": random.randint(0, 9), "wide": _EVEN + k // 3} for k in range(6)]
        lines = [
            {"lk": random.choice([*range(6), 99, None]), "q": random.randint(-3, 30), "s": letter, "w": float(_EVEN)}
            for letter in ("a", "b", "c", None) * 9
        ]
        events = [{"x": random.randint(0, 9), "s": letter} for letter in "abca"]
        data = {
            "orders": [row for row in orders if row["cust"] != without],
            "lines": lines,
            "sup": [{"s": s, "r": r} for s, r in (("a", 1), ("a", None), (None, 3), ("b", 2), ("b", 2))],
            "ev": [row for place, row in enumerate(events) if place != without_event],
        }
        (folder / "data").mkdir(parents=True)
        for name, rows in data.items():
            schema = pa.schema(list(_SHOP_TYPES[name].items()))
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "data" / f"{name}.parquet")
        salt = folder / "shop.ledger.copy.salt"
        salt.touch(mode=0o600)
        salt.write_bytes(bytes(range(32)))
        self.policy = read_policy(_shop_policy(folder))
        self.engine = DuckDB(self.policy, register(self.policy, lambda phase, table: None), Limits(threads=1))


def _shop_policy(folder: Path) -> dict[str, Any]:
    small = {"type": "integer", "bounds": [0, 9]}
    wide = {"type": "decimal", "step": 1, "bounds": [0, 1 << 60], "unique": True}
    orders = {"ok": {"type": "integer", "unique": True}, "cust": {"type": "integer"}, "tot": small, "wide": wide}
    lines = {
        "lk": {"type": "integer"},
        "q": {"type": "integer", "bounds": [0, 20]},
        "s": {"type": "text"},
        "w": {"type": "decimal"},
    }
    return {
        "name": "shop",
        "source": f"parquet:{folder}/data",
        "ledger": f"sqlite:{folder}/shop.ledger",
        "budget": {"epsilon": 1000, "delta": 0.001},
        "tables": {
            "orders": {"unit": "cust", "rows_per_unit": 3, "columns": orders},
            "lines": {
                "unit": "orders.cust via lk = ok",
                "rows_per_unit": 4,
                "groups_per_unit": 2,
                "columns": lines,
            },
            "sup": {"public": True},
            "ev": {
                "unit": "rows",
                "groups_per_unit": 1,
                "columns": {"x": small, "s": {"type": "text", "values": "sup.s"}},
            },
        },
    }


def _crowded(seed: int) -> World:
    """Return a clinic in which everybody has more visits than count, and is a patient."""
    random = Random(seed)
    visits = [visit(random, person) for person in range(3) for _ in range(5)]
    patients = [{"patient_id": person, "sex": "f", "income": 50, "ward": "a"} for person in range(3)]
    return World(visits, patients, [{"x": 9, "mood": "er"}, {"x": -3, "mood": "good"}])


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Opened, list[Opened]]]:
    folder, world = tmp_path_factory.mktemp("clinic"), _crowded(5)
    others = [world.without(person) for person in world.people] + [world.without_answer(place) for place in (0, 1)]
    first, *rest = (
        Opened(folder / str(place), one, visits={"groups_per_unit": 2}) for place, one in enumerate((world, *others))
    )
    yield first, rest
    for opened in (first, *rest):
        opened.engine.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Opened, list[Opened]]]:
    folder = tmp_path_factory.mktemp("shop")
    first = Shop(folder / "all")
    others: list[Opened] = [Shop(folder / f"without{customer}", customer) for customer in range(3)]
    others += [Shop(folder / f"event{place}", None, place) for place in range(4)]
    yield first, others
    for opened in (first, *others):
        opened.engine.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sfumato.Database]:
    write(tmp_path, _crowded(7))
    with sfumato.open(policy(tmp_path, visits={"rows_per_unit": 20})) as opened:
        yield opened


@pytest.mark.parametrize("sql", CLINIC)
def test_no_patient_moves_an_odd_question_further_than_declared(clinic: tuple[Opened, list[Opened]], sql: str) -> None:
    _check(*clinic, sql)


@pytest.mark.parametrize("sql", SHOP)
def test_no_customer_moves_a_question_through_a_path_further_than_declared(
    shop: tuple[Opened, list[Opened]], sql: str
) -> None:
    _check(*shop, sql)


def _exact(opened: Opened, sql: str) -> list[list[int]]:
    ((plan, found),) = opened.aggregates(sql)
    return [[int(value) for value in found.columns[measured.name]] for measured in plan.measured]


@pytest.mark.parametrize("condition", ["income = 20", "income BETWEEN 20 AND 20", "income >= 20 AND income < 21"])
def test_what_an_outer_join_leaves_out_is_null_whatever_was_known_of_it(tmp_path: Path, condition: str) -> None:
    absent = dict.fromkeys(("age", "dept", "city", "cost", "day", "seen", "urgent", "weight", "score"))
    patients = [{"patient_id": 1, "sex": "f", "income": 20, "ward": "a"}]
    opened = Opened(tmp_path, World([{"patient_id": person, **absent} for person in (1, 2)], patients))
    joined = f"visits v LEFT JOIN (SELECT patient_id, income FROM patients WHERE {condition}) p USING (patient_id)"
    assert _exact(opened, f"SELECT COUNT(p.income), SUM(p.income) FROM {joined}") == [[1], [20]]
    assert _exact(opened, f"SELECT SUM(COALESCE(p.income, 1)) FROM {joined}") == [[21]]
    assert _exact(opened, f"SELECT p.income IS NULL AS k, COUNT(*) FROM {joined} GROUP BY 1") == [[1, 1]]
    opened.engine.close()


def test_keys_of_rows_that_met_no_public_row_are_cells(clinic: tuple[Opened, list[Opened]]) -> None:
    first, _ = clinic
    sql = "SELECT s.name IS NULL AS k, COUNT(*) FROM visits v LEFT JOIN staff s ON v.dept = s.dept GROUP BY 1"
    (group,) = first.plan(sql).private.groups
    assert group.keys[0].cells == (False, True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(b.up) FROM visits v LEFT JOIN (SELECT patient_id, upper(dept) AS up FROM visits) b "
        "USING (patient_id)",
        "SELECT COUNT(b.one) FROM visits v LEFT JOIN (SELECT patient_id, 1 AS one FROM patients) b USING (patient_id)",
        "SELECT COUNT(*) FROM (SELECT patient_id, age + 1 AS a FROM visits) b RIGHT JOIN patients p USING (patient_id)",
    ],
)
def test_an_outer_join_with_a_computed_column_is_answered_or_refused(database: sfumato.Database, sql: str) -> None:
    with suppress(UnsupportedSql):
        database.explain(sql, epsilon="0.5")


def test_one_person_cannot_make_a_question_take_long(database: sfumato.Database) -> None:
    """With 20 rows per person, 8 tables would make 20^8 pairs of one of them: minutes, if that person is there."""
    joins = "".join(f" JOIN visits t{place} ON t0.patient_id = t{place}.patient_id" for place in range(1, 8))
    with pytest.raises(QueryTooLarge):
        database.explain(f"SELECT COUNT(*) FROM visits t0{joins}", epsilon="0.5")


@pytest.mark.parametrize("cells", ["(1e30), (1e-30)", "(1e-38), (5)", f"(3), (0.{'1234567890' * 5})"])
def test_numbers_that_no_grid_holds_together_do_not_reach_the_engine(database: sfumato.Database, cells: str) -> None:
    with suppress(QueryTooLarge):
        database.ask(f"SELECT COUNT(*), MAX(x) FROM (VALUES {cells}) AS t(x)")


def test_looking_for_keys_takes_no_longer_for_each_level_of_nesting(database: sfumato.Database) -> None:
    """Each level may cost a step, not twice what the levels below it cost."""
    nested = "city"
    for level in range(16):
        nested = f"LEAST({nested}, 'x{level}')"
    begun = time.monotonic()
    database.explain(f"SELECT {nested} AS k, COUNT(*) FROM visits GROUP BY 1", epsilon="0.5")
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize("key", [5, b"k", ["k"], object()])
def test_a_key_that_is_no_text_is_refused(database: sfumato.Database, key: Any) -> None:
    with refusing():
        database.ask("SELECT COUNT(*) FROM visits", epsilon="0.5", key=key)


@pytest.mark.parametrize("epsilon", ["1e-19", "1e-30", "1e-40"])
def test_noise_beyond_every_number_is_shown_without_a_warning(database: sfumato.Database, epsilon: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release = database.ask(
            "SELECT dept, SUM(age), AVG(age), VAR_SAMP(age) FROM visits GROUP BY dept", epsilon=epsilon
        )
        assert len(release.rows()) == len(release.intervals()) == 3


def test_a_long_text_takes_no_longer_than_a_short_one(tmp_path: Path) -> None:
    """Ten visits with 100,000 characters against patterns that other engines backtrack on for hours."""
    world = _crowded(1)
    hostile = [{**row, "city": "a" * 100_000} for row in world.visits[:10]]
    write(tmp_path, World(hostile, world.patients, world.survey))
    with sfumato.open(policy(tmp_path)) as opened:
        begun = time.monotonic()
        for pattern in ("%a%a%a%a%a%a%a%a%b", "%" + "a%" * 200 + "b", "_" * 500 + "%b"):
            opened.ask(f"SELECT COUNT(*) FROM visits WHERE city LIKE '{pattern}'", epsilon="0.5")
        assert time.monotonic() - begun < 5


PAIRS = "visits a JOIN visits b ON a.patient_id = b.patient_id"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) FROM {PAIRS} WHERE a.city || b.city LIKE '%x%y%'",
        f"SELECT COUNT(*) FROM {PAIRS} AND a.city || b.city LIKE '%x%y%'",
        f"SELECT COUNT(*) FROM {PAIRS} AND UPPER(a.city || b.city) = 'X'",
        f"SELECT COUNT(*) FROM {PAIRS} AND (a.city || b.city LIKE '%x%y%') = TRUE",
        f"SELECT COUNT(*) FROM {PAIRS.replace('JOIN', 'LEFT JOIN')} AND UPPER(a.city) = 'X'",
        f"SELECT COUNT(*) FILTER (WHERE a.city || b.city LIKE '%x%y%') FROM {PAIRS}",
        f"SELECT UPPER(a.city || b.city) = 'X' AS k, COUNT(*) FROM {PAIRS} GROUP BY k",
        f"SELECT SUM(n) FROM (SELECT POSITION(a.city IN b.city || 'x') AS n FROM {PAIRS}) t WHERE n < 5",
        f"SELECT SUM(n) FROM (SELECT a.patient_id, MAX(LENGTH(a.city || b.city)) AS n FROM {PAIRS} GROUP BY 1) t",
        "SELECT COUNT(*) FROM visits v JOIN (VALUES ('a'), ('b'), ('c')) w (c) ON v.city || w.c LIKE '%x%y%'",
    ],
)
def test_one_person_cannot_make_a_question_take_long_by_long_texts(tmp_path: Path, sql: str) -> None:
    """With 300 rows per person there are 90,000 pairs of one of them, each with two texts."""
    world = _crowded(2)
    write(tmp_path, world)
    with sfumato.open(policy(tmp_path, visits={"rows_per_unit": 9_000 if "VALUES" in sql else 300})) as opened:
        with pytest.raises(QueryTooLarge, match="characters"):
            opened.explain(sql, epsilon="0.5")
        short = sql.replace("a.city", "LEFT(a.city, 10)").replace("b.city", "LEFT(b.city, 10)")
        opened.explain(short.replace("v.city", "LEFT(v.city, 20)"), epsilon="0.5")
        opened.explain("SELECT COUNT(*) FROM visits WHERE city LIKE '%x%y%'", epsilon="0.5")
        if PAIRS in sql:
            opened.explain(f"SELECT COUNT(*) FROM {PAIRS} AND a.city = b.city", epsilon="0.5")
