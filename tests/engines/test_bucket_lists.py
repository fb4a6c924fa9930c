"""Whether an engine adds up buckets or lists rows, every cell holds the same weights in the same buckets."""

from collections.abc import Iterator
from random import Random
from unittest.mock import patch

import pyarrow as pa
import pytest
from tests.engines.engines import DuckDBUnderLaw
from tests.engines.planned import without_hidden_columns

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.engines.aggregates import BucketWeights
from sfumato.engines.engine import Engine
from sfumato.engines.sql import bucket_lists
from sfumato.engines.sql.statements import Statements
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.policy.reading import read_policy
from sfumato.query.parse import parse

COLUMNS = {
    "who": {"type": "integer"},
    "shop": {"type": "text", "values": ["nord", "ost", "sued", "west"]},
    "town": {"type": "text"},
    "price": {"type": "integer", "bounds": [0, 9]},
    "paid": {"type": "integer", "bounds": [-20000, 40000]},
    "far": {"type": "integer", "bounds": [-(2**40), 2**40]},
}
POLICY: dict[str, object] = {
    "name": "small",
    "budget": {"epsilon": 10, "delta": 0.001},
    "tables": {
        "sales": {"unit": "who", "rows_per_unit": 7, "columns": COLUMNS},
        "alone": {"unit": "rows", "rows_per_unit": 1, "columns": COLUMNS},
    },
}
QUESTIONS = (
    "SELECT shop, MEDIAN(price) FROM sales GROUP BY shop",
    "SELECT shop, MEDIAN(paid), MAX(paid) FROM sales GROUP BY shop",
    "SELECT shop, MEDIAN(far) FROM sales GROUP BY shop",
    "SELECT shop, MODE(price) FROM sales GROUP BY shop",
    "SELECT town, MEDIAN(paid) FROM sales GROUP BY town",
    "SELECT shop, MEDIAN(paid) FROM sales WHERE price > 4 GROUP BY shop",
    "SELECT shop, MEDIAN(paid) FILTER (WHERE price > 4) FROM sales GROUP BY shop",
    "SELECT shop, town, QUANTILE_DISC(price + paid, 0.25) FROM sales GROUP BY shop, town",
    "SELECT shop, MEDIAN(paid) FROM sales WHERE paid > 30000 GROUP BY shop",
    "SELECT shop, MEDIAN(paid) FROM alone GROUP BY shop",
)


def _rows() -> list[dict[str, object]]:
    """Some people have more rows than count; one has most of them; values lie on bounds and beyond, or are absent."""
    random = Random(31)
    return [
        {
            "who": who,
            "shop": random.choice(["nord", "nord", "sued", "nowhere", None]),
            "town": random.choice(["a", "b", None]),
            "price": random.choice([None, 0, 9, 10**9, *range(10)]),
            "paid": random.choice([None, -20000, 0, 17, 30000, 40000, -(10**9)]),
            "far": random.choice([None, -(2**60), 2**40, random.randrange(2**40)]),
        }
        for who in [*range(40), *[99] * 60]
        for _ in range(random.randint(0, 9))
    ]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    table = pa.Table.from_pylist(_rows())
    opened = DuckDBUnderLaw().opened(tmp_path_factory.mktemp("lists"), POLICY, {"sales": table, "alone": table})
    yield opened
    opened.close()


def _held(engine: Engine, sql: str, *, listed: bool, portion: int = 1 << 15, by_person: bool = False) -> list[object]:
    query = parse(sql, engine.catalog)
    with engine.public.one_question():
        private = analyse(query, engine.catalog, engine.public)
    budget = read_policy({**POLICY, "source": "duckdb:nowhere.duckdb"}).budget
    wish = parse_price_target(1, None, None, query.options, budget, PrivacyLoss(budget.epsilon, budget.delta))
    least = 0 if listed else 1 << 60
    with (
        patch.object(bucket_lists, "MIN_LISTED_BUCKETS", least),
        patch.object(bucket_lists, "MIN_LISTED_BUCKETS_OF_A_CELL", least),
        patch.object(bucket_lists, "_PORTION_NUMBERS", portion),
    ):
        plan = make_plan(private, wish)
        job = engine.prepare(plan if by_person else without_hidden_columns(plan, "people"))
        assert isinstance(job, Statements)
        assert any("list(" in one for texts in job.histograms for one in texts.values()) == listed
        groups = engine.run(job).groups
    found: list[object] = []
    for group in groups:
        places = sorted(range(len(group.keys)), key=lambda place: repr(group.keys[place]))
        for held in group.held.values():
            assert isinstance(held, BucketWeights)
            cells = [held.for_cell(place) for place in places]
            found.append(([group.keys[at] for at in places], [[part.tolist() for part in cell] for cell in cells]))
    return found


@pytest.mark.parametrize("sql", QUESTIONS)
def test_lists_of_rows_weigh_what_added_up_buckets_weigh(engine: Engine, sql: str) -> None:
    added_up = _held(engine, sql, listed=False)
    assert added_up
    for portion in (1, 100, 1 << 15):  # each cell by itself, some, or all together
        assert _held(engine, sql, listed=True, portion=portion) == added_up
        assert _held(engine, sql, listed=True, portion=portion, by_person=True) == added_up


def test_rows_are_listed_where_text_and_policy_allow_very_many_buckets(engine: Engine) -> None:
    """A question without keys has no more buckets than one column; few cells of few values are added up."""
    for sql, listed in (
        ("SELECT MEDIAN(paid) FROM sales", False),
        ("SELECT shop, MEDIAN(price) FROM sales GROUP BY shop", False),
        ("SELECT town, MEDIAN(price) FROM sales GROUP BY town", False),
        ("SELECT town, MEDIAN(paid) FROM sales GROUP BY town", True),
    ):
        query = parse(sql, engine.catalog)
        private = analyse(query, engine.catalog, engine.public)
        budget = read_policy({**POLICY, "source": "duckdb:nowhere.duckdb"}).budget
        wish = parse_price_target(1, None, None, query.options, budget, PrivacyLoss(budget.epsilon, budget.delta))
        job = engine.prepare(make_plan(private, wish))
        assert isinstance(job, Statements)
        assert any("list(" in one for texts in job.histograms for one in texts.values()) == listed
