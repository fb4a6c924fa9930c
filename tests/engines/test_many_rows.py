"""No statement fails because of how many rows or cells one person has: a failure would show who is there."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.engines.engines import ENGINES, DuckDBUnderLaw, UnderLaw, engine_under_law
from tests.engines.many_rows import ASKED, FORMS, SIZES, Clinic, clinic_of, same_on
from tests.engines.widths import narrow_types
from tests.paths.shapes import SHAPES

from sfumato.language.facts import Facts, Kind
from sfumato.query.functions import Aggregation
from sfumato.query.types import Type

TABLES = clinic_of(SIZES)
EVERY = 9
"""One shape in so many is asked under each form of bounds, another one under the next."""


def _asked(form: str) -> list[str]:
    place = list(FORMS).index(form)
    return [*SHAPES[place % EVERY :: EVERY], *ASKED[len(SHAPES) :]]


@pytest.fixture(params=FORMS, scope="module")
def clinic(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Clinic, str]]:
    folder = tmp_path_factory.mktemp("rows")
    found = Clinic(folder / "duckdb", DuckDBUnderLaw(), request.param, TABLES)
    yield found, request.param
    found.engine.close()


def test_no_statement_fails_however_many_rows_one_person_has(clinic: tuple[Clinic, str]) -> None:
    here, form = clinic
    plans = [plan for sql in _asked(form) if (plan := here.plan(sql)) is not None]
    assert len(plans) > 20
    for plan in plans:
        here.exact(plan)  # `EngineFailed` is a failure of the test


@pytest.mark.parametrize("engine", ENGINES[1:], ids=lambda engine: engine.dialect.name)
def test_every_engine_returns_the_same_of_people_with_many_rows(
    clinic: tuple[Clinic, str], engine: UnderLaw, tmp_path: Path
) -> None:
    here, form = clinic
    there = Clinic(tmp_path / "other", engine, form, TABLES)
    step = 2 if form == "private rows" else 4
    asked = [sql for place, sql in enumerate(_asked(form)) if place % step == 0 or "NTILE(" in sql]
    assert same_on(here, there, asked) > 5
    there.engine.close()


@pytest.mark.usefixtures("every_engine")
def test_what_statements_add_up_has_64_bits_or_more() -> None:
    """Engines count bits in 8 bits, and number rows in 32: sums of such numbers would overflow."""
    engine = engine_under_law()
    dialect, one = engine.dialect, Facts(Type.INTEGER, Kind.INTEGER, low=0, high=9)
    numbers = [
        dialect.popcount("t.x"),
        dialect.power_of_two("t.x - t.x"),
        dialect.floor_divide("t.x", "t.x"),
        dialect.integer(1, dialect.integer_type(one)),
        f"{dialect.popcount('t.x')} + {dialect.popcount('t.x')}",
    ]
    sums = [
        dialect.aggregate(Aggregation.COUNT, "t.x", one, False),
        dialect.aggregate(Aggregation.COUNT, "t.x", one, True),
        dialect.aggregate(Aggregation.SUM, "t.x", one, False),
        "bit_or(t.x)",
    ]
    tables = {"t": pa.table({"x": pa.array([5], pa.int64())})}
    for some in (numbers, sums):
        assert not narrow_types(engine, some, tables, "t")
