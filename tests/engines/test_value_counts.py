"""A person's weight in a quantile, by the counts in the copy: the same weights that counting gives, and no window."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from tests.engines.engines import engine_under_law
from tests.engines.planned import plan_of, without_hidden_columns

from sfumato.engines.aggregates import BucketWeights
from sfumato.engines.engine import Engine
from sfumato.engines.sql.statements import Statements
from sfumato.planning.plan import Plan

pytestmark = pytest.mark.usefixtures("every_engine")

COLUMNS = {
    "who": {"type": "integer"},
    "shop": {"type": "text", "values": ["nord", "sued"]},
    "price": {"type": "integer", "bounds": [0, 9]},
    "paid": {"type": "integer", "bounds": [-20000, 40000]},
}
POLICY: dict[str, object] = {
    "name": "small",
    "budget": {"epsilon": 10, "delta": 0.001},
    "tables": {"sales": {"unit": "who", "rows_per_unit": 6, "columns": COLUMNS}},
}
_RANDOM = Random(11)
ROWS = [
    {
        "who": who,
        "shop": _RANDOM.choice(["nord", "sued", None]),
        "price": _RANDOM.choice([None, *range(10)]),
        "paid": _RANDOM.choice([None, -20000, 0, 17, 30000]),
    }
    for who in range(25)
    for _ in range(_RANDOM.randint(0, 6))
]
CROWD = [{"who": 99, "shop": "nord", "price": at % 10 or None, "paid": None} for at in range(40)]
BY_THE_COPY = (
    "SELECT MEDIAN(price) FROM sales",
    "SELECT MODE(price) FROM sales",
    "SELECT shop, MEDIAN(paid), MAX(paid) FROM sales GROUP BY shop",
    "SELECT MEDIAN(p) FROM (SELECT price AS p, shop AS s FROM sales) t",
)
COUNTED_FROM_TWO_ON = (
    "SELECT MEDIAN(price) FROM sales WHERE shop = 'nord'",
    "SELECT MEDIAN(price) FILTER (WHERE paid > 5) FROM sales",
    "SELECT shop, price > 3 AS much, MEDIAN(paid) FROM sales WHERE price <> 5 GROUP BY shop, much",
    "SELECT MEDIAN(price) FROM sales WHERE paid = 1",
)
COUNTED = (
    "SELECT MEDIAN(price + paid) FROM sales",
    "SELECT MEDIAN(COALESCE(price, 3)) FROM sales",
    "SELECT MEDIAN(CASE WHEN price > 4 THEN price END) FROM sales",
    "SELECT MEDIAN(p) FROM (SELECT NULLIF(price, 1) AS p FROM sales) t",
)


@pytest.fixture(scope="module")
def engine(every_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    table = pa.Table.from_pylist([*ROWS, *CROWD])
    opened = engine_under_law().opened(tmp_path_factory.mktemp("counts"), POLICY, {"sales": table})
    yield opened
    opened.close()


def _held(engine: Engine, plan: Plan) -> tuple[list[str], list[list[list[int]]]]:
    job = engine.prepare(plan)
    assert isinstance(job, Statements)
    (group,) = engine.run(job).groups
    buckets = [one for one in group.held.values() if isinstance(one, BucketWeights)]
    held = [[one.cells.tolist(), one.buckets.tolist(), one.weights.tolist()] for one in buckets]
    return list(job.histograms[0].values()), held


@pytest.mark.parametrize("sql", [*BY_THE_COPY, *COUNTED_FROM_TWO_ON, *COUNTED])
def test_counts_of_the_copy_give_the_weights_that_counting_gives(engine: Engine, sql: str) -> None:
    plan = without_hidden_columns(plan_of(engine, POLICY, sql), "people")
    counting = without_hidden_columns(plan, "counted")
    (texts, held), (slow_texts, slow_held) = _held(engine, plan), _held(engine, counting)
    assert ["OVER" in text for text in texts] == [sql not in BY_THE_COPY] * len(texts)
    assert ["> 1" in text for text in texts] == [sql in COUNTED_FROM_TWO_ON] * len(texts)
    assert all("OVER" in text and "> 1" not in text for text in slow_texts)
    assert held == slow_held
    assert (sum(held[0][2]) > 0) is ("paid = 1" not in sql)


def test_a_person_of_several_rows_weighs_as_much_as_one_of_one(engine: Engine) -> None:
    plan = plan_of(engine, POLICY, "SELECT MEDIAN(paid) FROM sales")
    _, ((_, places, weights),) = _held(engine, plan)
    weight = plan.groups[0].chosen[0].weight
    paid = defaultdict(list)
    for row in ROWS:
        if row["paid"] is not None:
            paid[row["who"]].append(row["paid"])
    expected: Counter[int] = Counter()
    for values in paid.values():
        expected.update({value: values.count(value) * (weight // len(values)) for value in set(values)})
    assert weights == [expected[value] for value in sorted(expected)]
    assert len(places) == len(expected)


def test_who_has_one_row_at_most_has_no_counts(engine: Engine) -> None:
    assert {field.name for field in engine.catalog.tables["sales"].fields if field.has_value_counts} == {
        "price",
        "paid",
    }
    assert not any(field.has_value_counts for field in engine.catalog.tables["sales.removed"].fields)


@pytest.mark.parametrize("times", [10**15, 10**32])
def test_quantiles_are_in_their_cells_where_keys_are_beyond_64_bits(engine: Engine, times: int) -> None:
    """One such key of one person would otherwise make the answer fail, after the charge."""
    plan = plan_of(
        engine,
        POLICY,
        "SELECT paid * TIMES + price AS k, MEDIAN(price) FROM sales GROUP BY k".replace("TIMES", str(times)),
    )
    (group,) = engine.run(engine.prepare(plan)).groups
    (held,) = group.held.values()
    assert isinstance(held, BucketWeights)
    pairs = {(row["paid"], row["price"]) for row in (*ROWS, *CROWD) if None not in (row["paid"], row["price"])}
    keys = [key for (key,) in group.keys if isinstance(key, int)]
    assert set(keys) == {paid * times + price for paid, price in pairs}
    assert max(keys) > 2**63
    assert [keys[cell] % times for cell in held.cells.tolist()] == held.buckets.tolist()  # the last digit of the key
