"""Functions of pairs over rows that are nobody's: every engine gives what plain Python does, and NULL for nothing."""

from collections.abc import Callable
from math import sqrt

import pyarrow as pa
import pytest
from tests.engines.engines import engine_under_law

from sfumato.engines.sql.flow import flow_sql
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import AggregateItem, AggregateNode, InputNode, Item
from sfumato.language.scalar import column
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import PAIRS, Aggregation
from sfumato.query.types import Type

pytestmark = pytest.mark.usefixtures("every_engine")

NUMBER, KEY = Facts(Type.DECIMAL, Kind.REAL), Facts(Type.INTEGER, Kind.INTEGER, False, low=0, high=9)
TABLES: dict[int, list[tuple[float | None, float | None]]] = {
    0: [(1.0, 2.0), (2.5, 1.0), (None, 9.0), (4.0, -3.0), (7.0, None), (0.5, 0.5)],
    1: [(3.0, 1.0)],
    2: [(None, 1.0), (2.0, None)],
    3: [(1.0, 5.0), (2.0, 5.0), (4.0, 5.0)],
    4: [(7.0, 1.0), (7.0, 2.0), (7.0, 4.0)],
}
"""By their keys: several, one pair, none, x the same everywhere, y the same everywhere."""


class Sums:
    """The deviations of the pairs that are there."""

    def __init__(self, rows: list[tuple[float | None, float | None]]) -> None:
        pairs = [(y, x) for y, x in rows if y is not None and x is not None]
        self.n = len(pairs)
        self.y, self.x = (
            sum(side) / self.n if self.n else 0.0 for side in ([y for y, _ in pairs], [x for _, x in pairs])
        )
        self.xx = sum((x - self.x) ** 2 for _, x in pairs)
        self.yy = sum((y - self.y) ** 2 for y, _ in pairs)
        self.xy = sum((x - self.x) * (y - self.y) for y, x in pairs)


def _r2(one: Sums) -> float | None:
    if not one.xx:
        return None
    return one.xy**2 / (one.xx * one.yy) if one.yy else 1.0


EXPECTED: dict[Aggregation, Callable[[Sums], float | None]] = {
    Aggregation.COVAR_POP: lambda one: one.xy / one.n if one.n else None,
    Aggregation.COVAR_SAMP: lambda one: one.xy / (one.n - 1) if one.n > 1 else None,
    Aggregation.CORR: lambda one: one.xy / sqrt(one.xx * one.yy) if one.xx and one.yy else None,
    Aggregation.REGR_SLOPE: lambda one: one.xy / one.xx if one.xx else None,
    Aggregation.REGR_INTERCEPT: lambda one: one.y - one.xy / one.xx * one.x if one.xx else None,
    Aggregation.REGR_R2: _r2,
    Aggregation.REGR_SXX: lambda one: one.xx if one.n else None,
    Aggregation.REGR_SXY: lambda one: one.xy if one.n else None,
}


def test_every_function_of_pairs_is_tried() -> None:
    assert set(EXPECTED) == PAIRS


@pytest.mark.parametrize("function", sorted(PAIRS))
def test_a_function_of_pairs_is_what_plain_python_makes_of_it(function: Aggregation) -> None:
    rows = [(key, y, x) for key, pairs in TABLES.items() for y, x in pairs]
    given = InputNode("g", (("k", KEY), ("y", NUMBER), ("x", NUMBER)), tuple(rows))
    pair = Aggregate(function, (column("g", "y", NUMBER), column("g", "x", NUMBER)))
    fold = AggregateNode(given, "f", (Item("k", column("g", "k", KEY)),), (AggregateItem("m", pair, NUMBER),))
    engine = engine_under_law()
    found = dict(engine.rows(flow_sql(fold, {}, engine.dialect), {"unused": pa.table({"a": [1]})}))
    expected = {key: EXPECTED[function](Sums(pairs)) for key, pairs in TABLES.items()}
    assert found == {key: None if value is None else pytest.approx(value) for key, value in expected.items()}
