"""How a workshop measures: charged first, integers of the bounded copy, neighbours as far apart as declared, kept."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import sfumato
from sfumato.accounting.event import GaussianNoise, Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.database import Database
from sfumato.errors import (
    AnswerLost,
    BadParameter,
    BudgetExhausted,
    QueryTooLarge,
    RawRows,
    Refusal,
    UnitRevealed,
    UnsupportedSql,
)
from sfumato.measure import ColumnStatement, MeasurementRequest, Measurer, SumStatement, measure, prepare_measurement
from sfumato.mechanisms.gaussian import Gaussian

Row = tuple[int | None, int | None, str | None, float | None]
"""A patient, an age, a department, a cost."""

ROWS: list[Row] = [
    (1, 30, "er", 1.5),
    (1, 40, "icu", 2.0),
    (1, 50, "er", 2.5),
    (2, 30, "er", float("nan")),
    (2, 130, "icu", 9.25),
    (3, None, "er", 1.0),
    (3, 20, "nowhere", 1.0),
    (4, 20, None, float("inf")),
    (5, -3, "icu", 4.0),
    (None, 30, "er", 1.0),
]
NOISE = Gaussian(4, Fraction(100), Neighbours.ADD_REMOVE)
DECLARED = MeasurementRequest("test.sums", {"k": 1}, NOISE.event, PrivacyLoss(Fraction(1), Fraction(1, 10**6)))
SQL = "SELECT age, dept FROM visits"


def opened(folder: Path, rows: list[Row] = ROWS, epsilon: int = 10) -> Database:
    names = ("patient_id", "age", "dept", "cost")
    types = (pa.int64(), pa.int64(), pa.string(), pa.float64())
    columns = {
        name: pa.array([row[at] for row in rows], type=kind)
        for at, (name, kind) in enumerate(zip(names, types, strict=True))
    }
    (folder / "data").mkdir(parents=True)
    columns |= {"note": pa.array(["x"] * len(rows), pa.string()), "weight": pa.array([1.5] * len(rows), pa.float64())}
    parquet.write_table(pa.table(columns), folder / "data" / "visits.parquet")
    salt = folder / "clinic.ledger.copy.salt"  # neighbours share it
    salt.touch(mode=0o600)
    salt.write_bytes(bytes(range(32)))
    parquet.write_table(pa.table({"dept": ["er"]}), folder / "data" / "staff.parquet")
    return sfumato.open(policy(folder, epsilon))


def policy(folder: Path, epsilon: int = 10) -> dict[str, object]:
    return {
        "name": "clinic",
        "source": f"parquet:{folder / 'data'}",
        "ledger": f"sqlite:{folder / 'clinic.ledger'}",
        "budget": {"epsilon": epsilon, "delta": "1e-6"},
        "tables": {
            "staff": {"public": True, "columns": {"dept": {"type": "text"}}},
            "visits": {
                "unit": "patient_id",
                "rows_per_unit": 2,
                "columns": {
                    "patient_id": {"type": "integer"},
                    "age": {"type": "integer", "bounds": [0, 120]},
                    "dept": {"type": "text", "values": ["er", "icu"]},
                    "note": {"type": "text"},
                    "weight": {"type": "decimal"},
                    "cost": {"type": "decimal", "bounds": [0, 8], "step": 0.5},
                },
            },
        },
    }


def totals(database: Database, sql: str) -> dict[tuple[object, ...], int]:
    """Return the exact counts of all cells, as an engine tells them behind a charge."""
    asked = prepare_measurement(database, sql)
    exact = Measurer(asked, database.payer.source).totals(SumStatement(asked.rows.columns, (None,)))
    cells = [key.cells or () for key in asked.rows.columns]
    assert exact.shape == (int(np.prod([len(part) for part in cells])), 1)
    found: dict[tuple[object, ...], int] = {}
    for place, count in enumerate(exact[:, 0]):
        at = np.unravel_index(place, [len(part) for part in cells])
        found[tuple(part[int(i)] for part, i in zip(cells, at, strict=True))] = int(count)
    return found


def test_totals_are_those_of_complete_rows_of_the_bounded_copy(tmp_path: Path) -> None:
    database = opened(tmp_path)
    found = {cell: count for cell, count in totals(database, SQL).items() if count}
    first = {cell: found.pop(cell) for cell in [(30, "er"), (40, "icu"), (50, "er")] if cell in found}
    assert found == {(120, "icu"): 1, (0, "icu"): 1}, "no value, or one that is not declared: the row is absent"
    assert sum(first.values()) == 3, "two rows of the first person, and one of the second"


def test_columns_are_the_same_rows_with_their_people(tmp_path: Path) -> None:
    database = opened(tmp_path)
    asked = prepare_measurement(database, "SELECT age, dept, cost FROM visits")
    table = Measurer(asked, database.payer.source).columns(ColumnStatement(asked.rows.columns))
    age, dept, cost = table.columns
    assert sorted(Counter(table.people.tolist()).values()) == [1, 1, 2]
    rest = sorted(row for row in zip(age.tolist(), dept.tolist(), cost.tolist(), strict=True) if row[0] in (0, 120))
    assert rest == [(0, 1, 8), (120, 1, 16)], "steps of the grid, within the bounds; cells by their place"
    assert "120" not in repr(table)
    counted = Counter(zip(age.tolist(), dept.tolist(), strict=True))
    cells = totals(database, "SELECT age, dept FROM visits WHERE cost IS NOT NULL")
    assert counted == {(a, ("er", "icu").index(str(d))): n for (a, d), n in cells.items() if n}


def test_sums_are_exact_and_what_is_stored_outside_its_bounds_is_brought_there(tmp_path: Path) -> None:
    database = opened(tmp_path)
    asked = prepare_measurement(database, "SELECT dept, cost FROM visits WHERE age > 50 OR age < 20")
    dept, cost = asked.rows.columns
    exact = Measurer(asked, database.payer.source).totals(SumStatement((dept,), (None, cost.scalar)))
    assert exact.tolist() == [[0, 0], [2, 24]]


def test_no_neighbour_moves_the_integers_further_than_its_rows(tmp_path: Path) -> None:
    whole = totals(opened(tmp_path / "all"), SQL)
    moved = []
    for person in (1, 2, 3, 4, 5):
        other = totals(opened(tmp_path / str(person), [row for row in ROWS if row[0] != person]), SQL)
        assert other.keys() == whole.keys(), "the cells are public"
        moved.append(sum((whole[cell] - other[cell]) ** 2 for cell in whole))
    assert max(moved) == 2, "two rows in two cells"
    assert max(moved) <= 4 == NOISE.sensitivity_squared
    assert 0 in moved


def summed(reading: Measurer) -> object:
    asked = reading._asked
    exact = reading.totals(SumStatement(asked.rows.columns, (None,)))
    return [int(value) for value in reading.noisy(exact.ravel(), NOISE)]


def test_the_same_question_however_spelt_is_free_and_equal(tmp_path: Path) -> None:
    database = opened(tmp_path)
    first = measure(database, prepare_measurement(database, SQL), DECLARED, summed)
    assert len(first.released) == 242
    spent = database.budget().spent
    calls: list[int] = []

    def never(reading: Measurer) -> object:
        calls.append(1)
        return summed(reading)

    for sql in (
        "select AGE as a, dept d from public.visits;",
        'WITH v AS (SELECT * FROM visits) SELECT v."age", dept FROM v',
    ):
        again = measure(database, prepare_measurement(database, sql), DECLARED, never)
        assert again == first
    assert not calls
    assert database.budget().spent == spent
    assert [entry.sql for entry in database.history()] == [f"test.sums: {SQL}"]
    assert first.receipt.sequence is not None
    assert first.receipt.bits >= first.receipt.needed > 242
    assert database.verify()
    other = measure(
        database,
        prepare_measurement(database, SQL),
        MeasurementRequest("test.sums", {"k": 2}, NOISE.event, DECLARED.loss),
        summed,
    )
    assert other.released != first.released
    assert database.budget().spent.epsilon > spent.epsilon
    database.close()
    with sfumato.open(policy(tmp_path)) as later:
        assert measure(later, prepare_measurement(later, SQL), DECLARED, never) == first


def test_the_charge_is_durable_before_a_row_is_read(tmp_path: Path) -> None:
    database = opened(tmp_path)
    seen: list[int] = []

    def looking(reading: Measurer) -> object:
        with sfumato.open(policy(tmp_path)) as other:
            seen.append(len(other.history()))
            assert other.budget().spent.epsilon > 0
        return summed(reading)

    measure(database, prepare_measurement(database, SQL), DECLARED, looking)
    assert seen == [1]


def test_a_release_that_fails_before_noise_is_taken_up_and_after_noise_is_lost(tmp_path: Path) -> None:
    database = opened(tmp_path)

    def too_early(reading: Measurer) -> object:
        raise RuntimeError

    def too_late(reading: Measurer) -> object:
        summed(reading)
        raise RuntimeError

    for failing in (too_early, too_early, too_late):
        with pytest.raises(RuntimeError):
            measure(database, prepare_measurement(database, SQL), DECLARED, failing)
    once = database.budget().spent.epsilon
    assert once > 0
    for _ in range(3):
        with pytest.raises(AnswerLost):
            measure(database, prepare_measurement(database, SQL), DECLARED, summed)
    assert database.budget().spent.epsilon == once
    assert [entry.state for entry in database.history()] == ["failed"]


KILLED = """
    import os, sys
    from pathlib import Path
    import sfumato
    from sfumato.measure import prepare_measurement, measure
    from tests.test_measure import DECLARED, SQL, policy, summed

    def killed(reading):
        summed(reading)
        os._exit(9)

    with sfumato.open(policy(Path(sys.argv[1]))) as database:
        measure(database, prepare_measurement(database, SQL), DECLARED, killed)
"""


def test_who_is_killed_while_measuring_has_paid_and_a_retry_takes_that_up(tmp_path: Path) -> None:
    opened(tmp_path).close()
    root = Path(__file__).parent.parent
    code = dedent(KILLED)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, check=False)
    assert done.returncode == 9
    with sfumato.open(policy(tmp_path)) as database:
        once = database.budget().spent.epsilon
        assert once > 0
        assert measure(database, prepare_measurement(database, SQL), DECLARED, summed).receipt.sequence is not None
        assert database.budget().spent.epsilon == once
        assert database.verify()


def test_at_the_cap_nothing_is_read_and_what_was_kept_is_still_there(tmp_path: Path) -> None:
    database = opened(tmp_path, epsilon=1)
    first = measure(database, prepare_measurement(database, SQL), DECLARED, summed)
    dear = GaussianNoise(4, Fraction(1, 10), Neighbours.ADD_REMOVE)
    calls: list[int] = []

    def never(reading: Measurer) -> object:
        calls.append(1)
        return summed(reading)

    with pytest.raises(BudgetExhausted):
        measure(
            database,
            prepare_measurement(database, SQL),
            MeasurementRequest("test.sums", {}, dear, DECLARED.loss),
            never,
        )
    assert not calls
    assert measure(database, prepare_measurement(database, SQL), DECLARED, never) == first


@pytest.fixture(scope="module")
def nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with opened(tmp_path_factory.mktemp("nobody") / "clinic", []) as database:
        yield database


@pytest.mark.parametrize(
    ("sql", "refusal"),
    [
        ("SELECT patient_id, age FROM visits", UnitRevealed),
        ("SELECT COUNT(*) FROM visits", UnsupportedSql),
        ("SELECT dept FROM staff", UnsupportedSql),
        ("SELECT age, note FROM visits", UnsupportedSql),
        ("SELECT weight FROM visits", UnsupportedSql),
        ("SELECT age FROM visits LIMIT 3", RawRows),
        ("SELECT DISTINCT age FROM visits", UnsupportedSql),
        ("SELECT age * age * age * age * age * age * age * age * age * age FROM visits", QueryTooLarge),
        ("SELECT nothing FROM visits", Refusal),
        ("no SQL", Refusal),
    ],
)
def test_what_has_no_rows_to_measure_is_refused_from_its_text(
    nobody: Database, sql: str, refusal: type[Refusal]
) -> None:
    with pytest.raises(refusal):
        prepare_measurement(nobody, sql)


def test_only_an_open_database_can_be_measured(tmp_path: Path) -> None:
    anything: Any = "clinic.toml"
    with pytest.raises(BadParameter):
        prepare_measurement(anything, SQL)
    database = opened(tmp_path)
    database.close()
    with pytest.raises(BadParameter):
        prepare_measurement(database, SQL)


def test_no_rows_at_all_are_measured_like_any(nobody: Database) -> None:
    asked = prepare_measurement(nobody, "SELECT age, dept, cost FROM visits")
    table = Measurer(asked, nobody.payer.source).columns(ColumnStatement(asked.rows.columns))
    assert [len(column) for column in (*table.columns, table.people)] == [0, 0, 0, 0]
    assert len(measure(nobody, prepare_measurement(nobody, SQL), DECLARED, summed).released) == 242
