"""Values that are matched to people: what an engine counts within each limit is the largest matching of all pairs."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.engines.engines import engine_under_law
from tests.laws.matched import served

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.engines.aggregates import BucketWeights
from sfumato.engines.engine import Engine
from sfumato.mechanisms.matched_count import MatchedCount
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.policy.reading import read_policy
from sfumato.query.parse import parse

pytestmark = pytest.mark.usefixtures("every_engine")

LETTERS = "abcdefghijklmnopqrst"
COLUMNS = {
    "who": {"type": "integer"},
    "item": {"type": "text"},
    "code": {"type": "integer", "bounds": [0, 99]},
    "year": {"type": "integer", "values": [1, 2, 3]},
    "town": {"type": "text"},
    "page": {"type": "integer", "bounds": [0, 200]},
}
POLICY: dict[str, object] = {
    "name": "small",
    "budget": {"epsilon": 10, "delta": 0.001},
    "tables": {
        "sales": {"unit": "who", "rows_per_unit": 400, "groups_per_unit": 3, "columns": COLUMNS},
        "often": {"unit": "who", "rows_per_unit": 45, "groups_per_unit": 3, "columns": COLUMNS},
    },
}


def _rows() -> list[dict[str, Any]]:
    """People with a few common things, and some with many that are theirs or that few have."""
    random, rows = Random(11), []
    for who in range(30):
        many = who % 10 == 0
        for _ in range(12 if many else random.randint(0, 4)):
            at = random.randrange(4, 20) if many else random.randrange(5)
            year, town = random.choice([1, 1, 2, 9]), random.choice(["x", "y", None])
            rows.append({"who": who, "item": LETTERS[at], "code": at, "year": year, "town": town})
        rows.append({"who": who, "item": None, "code": None, "year": 1, "town": "x"})
        # each page has more owners than are asked for first, and there are more pages than that; some have their own
        pages = [(who * 7 + at * at) % 40 for at in range(9)] + [60 + who] * (who % 3 == 0) + [100 + who] * (who < 4)
        rows += [{"who": who, "page": page} for page in pages]
    return rows


ROWS = _rows()
for _row in ROWS:
    for _name in COLUMNS:
        _row.setdefault(_name, None)
Kept = Callable[[dict[str, Any]], Any]


def _few(page: int | None) -> tuple[()] | None:
    return () if page is not None and (page < 12 or page > 59) else None


QUESTIONS: tuple[tuple[str, Kept], ...] = (
    ("SELECT COUNT(DISTINCT item) FROM sales", lambda row: ()),
    ("SELECT COUNT(DISTINCT page) FROM sales", lambda row: ()),
    ("SELECT COUNT(DISTINCT page) FROM sales WHERE page < 12 OR page > 59", lambda row: _few(row["page"])),
    ("SELECT COUNT(DISTINCT code) FROM sales WHERE code > 3", lambda row: () if (row["code"] or 0) > 3 else None),
    ("SELECT COUNT(DISTINCT item) FILTER (WHERE town = 'x') FROM sales", lambda r: () if r["town"] == "x" else None),
    ("SELECT year, COUNT(DISTINCT item), COUNT(*) FROM sales GROUP BY year", lambda row: (row["year"],)),
    ("SELECT town, COUNT(DISTINCT code) FROM sales GROUP BY town", lambda row: (row["town"],) if row["town"] else None),
    ("SELECT COUNT(DISTINCT item) FROM often", lambda row: ()),  # the same rows within a lower bound, which all keep
    ("SELECT COUNT(DISTINCT page) FROM often", lambda row: ()),
    ("SELECT town, COUNT(DISTINCT code) FROM often GROUP BY town", lambda row: (row["town"],) if row["town"] else None),
)


@pytest.fixture(scope="module")
def engine(every_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    rows = pa.Table.from_pylist(ROWS)
    opened = engine_under_law().opened(tmp_path_factory.mktemp("match"), POLICY, {"sales": rows, "often": rows})
    yield opened
    opened.close()


@pytest.mark.parametrize(("sql", "cell"), QUESTIONS, ids=[sql for sql, _ in QUESTIONS])
def test_an_engine_finds_the_largest_matching_within_each_limit(engine: Engine, sql: str, cell: Kept) -> None:
    query = parse(sql, engine.catalog)
    with engine.public.one_question():
        private = analyse(query, engine.catalog, engine.public)
    budget = read_policy({**POLICY, "source": "duckdb:nowhere.duckdb"}).budget
    wish = parse_price_target(1, None, None, query.options, budget, PrivacyLoss(budget.epsilon, budget.delta))
    plan = make_plan(private, wish)
    ((chosen,),) = (group.chosen for group in plan.groups)
    assert isinstance(chosen.mechanism, MatchedCount)
    (group,) = engine.run(engine.prepare(plan)).groups
    held = group.held[chosen.name]
    assert isinstance(held, BucketWeights)

    people: dict[Any, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in ROWS:
        value = (None if row["page"] is None else chr(200 + row["page"])) if "page" in sql else row["item"]
        if value is not None and (key := cell(row)) is not None:
            people[key][row["who"]].add(value)
    for place, key in enumerate(group.keys):
        everybody = ["".join(sorted(own)) for own in people[key].values()]
        expected = [served(everybody, limit) for limit in chosen.mechanism.limits]
        assert held.for_cell(place)[1].tolist() == expected, key
    assert held.weights.max() > held.weights.min()  # limits matter here


def test_where_a_margin_is_asked_for_all_values_of_a_person_count(engine: Engine) -> None:
    query = parse("SELECT COUNT(DISTINCT item) AS n FROM sales", engine.catalog)
    private = analyse(query, engine.catalog, engine.public)
    budget = read_policy({**POLICY, "source": "duckdb:nowhere.duckdb"}).budget
    wish = parse_price_target(None, {"n": 250}, None, query.options, budget, PrivacyLoss(budget.epsilon, budget.delta))
    (group,) = make_plan(private, wish).groups
    assert not group.chosen
    assert group.measured[0].sensitivity.l1 == 400
