"""Histograms per cell against plain Python: the second shape of what an engine measures."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.engines.engines import UnderLaw
from tests.engines.opened import LAPLACE, SENSITIVITY, measured, of, opened, planned

from sfumato.analysis.private_query import Key
from sfumato.engines.engine import Engine
from sfumato.planning.plan import PlannedMeasurement
from sfumato.query.aggregate import Aggregate
from sfumato.query.functions import Aggregation

pytestmark = pytest.mark.usefixtures("every_engine")

ROWS, SITES = 12, 5
COLUMNS: dict[str, Any] = {
    "patient": {"type": "integer"},
    "dept": {"type": "text"},
    "flag": {"type": "boolean"},
    "site": {"type": "integer", "bounds": [-1, 3]},
    "cost": {"type": "integer", "bounds": [0, 9]},
}


def _visits() -> list[tuple[Any, ...]]:
    random = Random(3)
    return [
        (
            person,
            random.choice(["er", "icu", "lab", None]),
            random.choice([True, False, None]),
            random.choice([None, *range(-1, 4)]),
            random.randint(0, 9),
        )
        for person in range(20)
        for _ in range(random.randint(1, ROWS))
    ]


@pytest.fixture(scope="module")
def engine(every_engine: UnderLaw, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    root: Path = tmp_path_factory.mktemp("histograms")
    columns = [list(column) for column in zip(*_visits(), strict=True)]
    table = {"unit": "patient", "rows_per_unit": ROWS, "columns": COLUMNS}
    return opened(root, {"visits": table}, {"visits": pa.table(dict(zip(COLUMNS, columns, strict=True)))})


def _histogram(engine: Engine, *names: str, where: str | None = None) -> PlannedMeasurement:
    table = engine.catalog.tables["visits"]
    arguments = tuple(of(table, name) for name in names)
    condition = None if where is None else of(table, where)
    return PlannedMeasurement("h", Aggregate(Aggregation.HISTOGRAM, arguments, where=condition), SENSITIVITY, LAPLACE)


def _dept(engine: Engine, cells: tuple[str, ...] | None) -> Key:
    return Key("k", of(engine.catalog.tables["visits"], "dept"), cells)


def _expected(dept: str, *, weighted: bool = False, flagged: bool = False) -> list[int]:
    found: Counter[int] = Counter()
    for _, key, flag, site, cost in _visits():
        if key == dept and site is not None and (flag or not flagged):
            found[site] += cost if weighted else 1
    return [found[site] for site in range(-1, 4)]


@pytest.mark.parametrize("public", [True, False])
def test_a_cell_has_an_integer_for_every_bucket_also_for_the_empty_ones(engine: Engine, public: bool) -> None:
    keys = (_dept(engine, ("lab", "none", "er") if public else None),)
    measures = (measured("n", Aggregation.COUNT), _histogram(engine, "site"))
    plan = planned(engine.catalog.tables["visits"], keys, measures)
    (group,) = engine.run(engine.prepare(plan)).groups
    assert list(group.columns) == ["n", "h"]
    assert group.columns["h"].shape == (len(group.keys), SITES)
    assert [key for (key,) in group.keys] == ["lab", "none", "er"] if public else len(group.keys) == 3
    for (key,), row in zip(group.keys, group.columns["h"], strict=True):
        assert row.tolist() == _expected(str(key))


def test_weights_are_added_up_and_a_filter_leaves_rows_out(engine: Engine) -> None:
    keys = (_dept(engine, ("er", "icu")),)
    for weighted in (False, True):
        one = _histogram(engine, *["site", "cost"][: 1 + weighted], where="flag")
        (group,) = engine.run(engine.prepare(planned(engine.catalog.tables["visits"], keys, (one,)))).groups
        expected = [_expected(key, weighted=weighted, flagged=True) for key in ("er", "icu")]
        assert group.columns["h"].tolist() == expected


@pytest.mark.parametrize(("rows", "groups"), [(None, 1), (2, None), (3, 2)])
@pytest.mark.parametrize("public", [True, False])
def test_a_histogram_is_over_the_same_bounded_rows_as_the_counts(
    engine: Engine, rows: int | None, groups: int | None, public: bool
) -> None:
    table = engine.catalog.tables["visits"]
    present = _histogram(engine, "site")
    measures = (measured("n", Aggregation.COUNT, of(table, "site")), present)
    plan = planned(table, (_dept(engine, ("er", "icu", "lab") if public else None),), measures, None, rows, groups)
    (group,) = engine.run(engine.prepare(plan)).groups
    assert group.columns["h"].sum(axis=1).tolist() == group.columns["n"].tolist()
    assert group.columns["h"].sum() < sum(sum(_expected(key)) for key in ("er", "icu", "lab"))


def test_without_keys_there_is_one_histogram(engine: Engine) -> None:
    plan = planned(engine.catalog.tables["visits"], (), (_histogram(engine, "site"),))
    (group,) = engine.run(engine.prepare(plan)).groups
    expected = Counter(site for *_, site, _ in _visits())
    assert group.columns["h"].tolist() == [[expected[site] for site in range(-1, 4)]]
