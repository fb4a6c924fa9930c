"""A stream over the database: snapshots become periods, people count as often as was paid for, numbers have bars."""

from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.streams.plans_of_all_kinds import coins

import sfumato
from sfumato import streams
from sfumato.database import Database
from sfumato.errors import BadParameter, BudgetExhausted, Refusal, StreamDamaged, UnsupportedSql
from sfumato.streams import Dashboard
from sfumato.streams.plans import GaussianSums, PeriodTables, TreeSums

SQL = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"
DATED = "SELECT dept, COUNT(*) AS n FROM visits WHERE day >= :from AND day < :to GROUP BY dept"
Visit = tuple[int, str, int]
"""A patient, a department, a day of January 2026."""


def write(folder: Path, visits: Sequence[Visit]) -> None:
    columns = {
        "patient_id": [patient for patient, _, _ in visits],
        "dept": [dept for _, dept, _ in visits],
        "day": [date(2026, 1, day) for _, _, day in visits],
        "cost": [10 * patient for patient, _, _ in visits],
    }
    (folder / "data").mkdir(exist_ok=True)
    parquet.write_table(pa.table(columns), folder / "data" / "visits.parquet")


def opened(
    folder: Path, visits: Sequence[Visit], unit: str = "patient_id", groups_per_unit: int | None = None, **more: Any
) -> Database:
    write(folder, visits)
    table: dict[str, Any] = {
        "unit": unit,
        "columns": {
            "day": {"type": "date", "bounds": [date(2026, 1, 1), date(2026, 1, 31)]},
            "dept": {"type": "text", "values": ["er", "icu"]},
            "cost": {"type": "integer", "bounds": [0, 100]},
        },
    }
    if unit != "rows":
        table |= {"rows_per_unit": 2} | ({} if groups_per_unit is None else {"groups_per_unit": groups_per_unit})
        table["columns"]["patient_id"] = {"type": "integer"}
    policy = {
        "name": "clinic",
        "source": f"parquet:{folder / 'data'}",
        "ledger": f"sqlite:{folder / 'clinic.ledger'}",
        "budget": {"epsilon": 100, "delta": "1e-6"},
        "tables": {"visits": table},
    }
    return sfumato.open({**policy, **more})


def exact(dashboard: Dashboard) -> list[list[int]]:
    """Return the steps' exact values, from the file that only its owner may read."""
    process: Any = dashboard.stream._process
    return [[int(cell) for cell in row] for row in (process._high.rows << 20) + process._low.rows]


def test_each_snapshot_adds_its_period(tmp_path: Path) -> None:
    database = opened(tmp_path, [(1, "er", 1), (2, "er", 1), (3, "icu", 1)])
    board = streams.publish(database, SQL, every="day", horizon=5, epsilon=50)
    assert isinstance(board.plan, GaussianSums)
    assert board.plan.participations == 5
    assert board.plan.change_squared == 4
    assert "in all its steps" in board.protects
    assert board.rows() == []
    first = board.add()
    assert [row["dept"] for row in first] == ["er", "icu"]
    write(tmp_path, [(1, "er", 2), (4, "icu", 2), (5, "icu", 2)])
    second = board.add()
    assert [row["period"] for row in second] == [2, 2]
    assert exact(board) == [[2, 1], [1, 2]]
    for row, true in zip(board.rows(), (2, 1, 3, 3), strict=True):
        assert row["n_low"] < row["n"] < row["n_high"]
        assert row["n_high"] - row["n"] == pytest.approx(board.plan.margin("0.95", row["period"]))
        assert abs(row["n"] - true) < 6 * board.plan.rmse[1]
    assert len(database.history()) == 1
    database.verify()
    assert "2 of 5 periods" in repr(board)


def test_periods_of_a_calendar_stand_in_the_question(tmp_path: Path) -> None:
    visits = [(1, "er", 1), (1, "er", 2), (2, "icu", 2), (3, "icu", 9), (4, "er", 3)]
    database = opened(tmp_path, visits)
    board = streams.publish(database, DATED, every="day", horizon=4, start="2026-01-01", epsilon=50)
    for _ in range(3):
        board.add()
    assert exact(board) == [[1, 0], [1, 1], [1, 0]]
    assert [row["period"] for row in board.rows()] == [date(2026, 1, day) for day in (1, 1, 2, 2, 3, 3)]
    assert "2026-01-01" in database.history()[0].sql


def test_a_dashboard_survives_a_restart_and_is_charged_once(tmp_path: Path) -> None:
    database = opened(tmp_path, [(1, "er", 1)])
    with streams.publish(database, SQL, every="week", horizon=3, epsilon=9) as board:
        board.add(coins(1))
        before = board.rows()
    database.close()
    database = opened(tmp_path, [(1, "er", 1), (2, "er", 1)])
    with streams.publish(database, SQL, every="week", horizon=3, epsilon=9) as board:
        assert board.rows() == before
        board.add(coins(2))
        board.add(coins(3))
        assert exact(board) == [[1, 0], [2, 0], [2, 0]]
        with pytest.raises(BadParameter, match="complete"):
            board.add()
        (entry,) = database.history()
        assert entry.event == board.plan.event
        assert board.loss == entry.loss


def test_who_has_taken_part_often_enough_is_left_out(tmp_path: Path) -> None:
    database = opened(tmp_path, [(1, "er", 1), (2, "er", 1)])
    board = streams.publish(database, SQL, every="day", horizon=6, participations=2, epsilon=50)
    assert board.plan == GaussianSums.by_rho(
        board.plan.event.sensitivity_squared / (2 * board.plan.sigma_squared),  # type: ignore[union-attr]
        6,
        board.plan.neighbours,
        cells=2,
        change_squared=4,
        participations=2,
    )
    board.add()
    write(tmp_path, [(1, "er", 2), (1, "icu", 2), (3, "er", 2)])
    board.add()
    board.close()
    board = streams.publish(database, SQL, every="day", horizon=6, participations=2, epsilon=50)  # it remembers
    write(tmp_path, [(1, "er", 3), (2, "er", 3), (3, "er", 3)])
    board.add()
    write(tmp_path, [(1, "er", 4), (2, "icu", 4), (3, "icu", 4), (4, "icu", 4)])
    board.add()
    # 1 took part on days 1 and 2; 2 on 1 and 3; 3 on 2 and 3: on day 4 only 4 counts
    assert exact(board) == [[2, 0], [2, 1], [2, 0], [0, 1]]


def test_participations_keep_their_distance(tmp_path: Path) -> None:
    database = opened(tmp_path, [(1, "er", 1)])
    board = streams.publish(database, SQL, every="day", horizon=7, participations=2, separation=3, epsilon=50)
    for _ in range(7):
        board.add()
    assert [row[0] for row in exact(board)] == [1, 0, 0, 1, 0, 0, 0]


def test_people_who_are_read_one_by_one_are_bounded_as_all_together(tmp_path: Path) -> None:
    """Two rows of a person count on one day, in one department: what is enforced per snapshot still is."""
    visits = [(1, "er", 1), (1, "icu", 1), *[(2, "icu", 1)] * 5, (3, "ward", 1)]
    database = opened(tmp_path, visits, groups_per_unit=1)
    kept = {"every": "day", "horizon": 4, "epsilon": 40}
    together = streams.publish(database, SQL, **kept)  # type: ignore[arg-type]
    alone = streams.publish(database, SQL, **kept, participations=3)  # type: ignore[arg-type]
    together.add()
    alone.add()
    for board in (together, alone):
        ((er, icu),) = exact(board)
        assert (er, icu - 2) in ((1, 0), (0, 1))  # of patient 1 one department, of patient 2 two rows


def test_a_step_that_was_not_taken_admits_the_same_people_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = opened(tmp_path, [(1, "er", 1), (2, "icu", 1)])
    board = streams.publish(database, SQL, every="day", horizon=4, participations=1, epsilon=50)
    with monkeypatch.context() as patched:
        patched.setattr(type(board.stream), "observe", lambda *_: (_ for _ in ()).throw(OSError()))
        with pytest.raises(OSError):  # noqa: PT011
            board.add()
    board.close()
    board = streams.publish(database, SQL, every="day", horizon=4, participations=1, epsilon=50)
    board.add()
    board.add()
    assert exact(board) == [[1, 1], [0, 0]]


def test_participations_that_are_lost_or_old_are_refused(tmp_path: Path) -> None:
    database = opened(tmp_path, [(1, "er", 1)])
    arguments: dict[str, Any] = {"every": "day", "horizon": 4, "participations": 1, "epsilon": 50}
    board = streams.publish(database, SQL, **arguments, path=tmp_path / "s")
    people = tmp_path / "s.people"
    board.add()
    old = people.read_bytes()
    board.add()
    board.add()
    board.close()
    new = people.read_bytes()
    for broken in (old, new[:-1], b"", new.replace(b'"time":3', b'"time":2'), b"{}\n{}"):
        people.write_bytes(broken)
        with pytest.raises(StreamDamaged):
            streams.publish(database, SQL, **arguments, path=tmp_path / "s")
    people.unlink()
    with pytest.raises(StreamDamaged, match="gone"):
        streams.publish(database, SQL, **arguments, path=tmp_path / "s")
    people.write_bytes(new)
    assert streams.publish(database, SQL, **arguments, path=tmp_path / "s").stream.time == 3


def test_rows_that_are_their_own_people_and_lie_in_one_period_count_once(tmp_path: Path) -> None:
    database = opened(tmp_path, [(1, "er", 1), (2, "er", 2)], unit="rows")
    board = streams.publish(database, DATED, every="day", horizon=30, start=date(2026, 1, 1), epsilon=50)
    assert board.plan.participations == 1  # type: ignore[union-attr]
    undated = streams.publish(database, SQL, every="day", horizon=30, epsilon=1)
    assert undated.plan.participations == 30  # type: ignore[union-attr]
    for sql in (
        DATED.replace("AND", "OR"),
        DATED.replace("day < :to", "day <= :to"),
        DATED.replace("day >= :from AND ", ""),
        DATED.replace(":to", "DATE '2026-02-01'"),
    ):
        other = streams.publish(database, sql, every="day", horizon=30, start="2026-01-01", epsilon=1)
        assert other.plan.participations == 30, sql  # type: ignore[union-attr]
    with pytest.raises(BadParameter, match="enforced"):
        streams.publish(database, SQL, every="day", horizon=30, participations=2, epsilon=1)


def test_under_replace_a_person_may_leave_as_many_steps_as_they_enter(tmp_path: Path) -> None:
    database = opened(tmp_path, [(1, "er", 1)], unit="rows", neighbours="replace")
    board = streams.publish(database, DATED, every="day", horizon=9, start="2026-01-01", epsilon=50)
    assert board.plan.participations == 2  # type: ignore[union-attr]
    database.close()
    database = opened(_folder(tmp_path / "people"), [(1, "er", 1)], neighbours="replace")
    board = streams.publish(database, SQL, every="day", horizon=9, participations=3, separation=2, epsilon=50)
    assert isinstance(board.plan, GaussianSums)
    assert (board.plan.participations, board.plan.separation) == (6, 1)


def test_sums_have_their_own_unit_and_tables_their_own_noise(tmp_path: Path) -> None:
    database = opened(tmp_path, [(1, "er", 1), (7, "er", 1)])
    money = "SELECT SUM(cost) AS money FROM visits"
    board = streams.publish(database, money, every="month", horizon=3, shows="tables", epsilon=90)
    assert isinstance(board.plan, PeriodTables)
    assert board.plan.change == 200
    board.add()
    (row,) = board.rows()
    assert row["money"] == pytest.approx(80, abs=200)
    without = opened(_folder(tmp_path / "pure"), [(1, "er", 1)], budget={"epsilon": 100, "delta": 0})
    tree = streams.publish(without, SQL, every="day", horizon=3, epsilon=6)
    assert isinstance(tree.plan, TreeSums)
    assert tree.plan.event.times * tree.plan.change / tree.plan.scale == 6
    assert tree.plan.change == 3 * 2


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_windows_of_a_dashboard_are_sums_of_the_last_periods(tmp_path: Path) -> None:
    database = opened(tmp_path, [(patient, "er", 1) for patient in range(40)])
    board = streams.publish(database, SQL, every="day", horizon=6, epsilon=90)
    for _ in range(5):
        board.add()
    last = [row["n"] for row in board.rows(width=2) if row["dept"] == "er"]
    sums = [row["n"] for row in board.rows() if row["dept"] == "er"]
    assert last == pytest.approx([sums[0], sums[1], *np.subtract(sums[2:], sums[:-2])])
    assert board.rows(least=sums[2] - 1e-9) == [row for row in board.rows() if row["n"] >= sums[2] - 1e-9] != []
    drawn = board.plot(width=2).to_dict()
    assert len(drawn["layer"]) == 2


def test_different_values_go_on_as_a_stream_with_the_same_noise_at_every_step(tmp_path: Path) -> None:
    """An answer would choose by matching how many values of a person count; a stream has one noise for all steps."""
    columns = {"patient_id": {"type": "integer"}, "day": {"type": "date"}}
    tables = {"visits": {"unit": "patient_id", "rows_per_unit": 8, "columns": columns}}
    visits = [(patient, "er", day) for patient in range(3) for day in range(1, 9)]
    database = opened(tmp_path, visits, tables=tables)
    board = streams.publish(database, "SELECT COUNT(DISTINCT day) AS n FROM visits", every="day", horizon=2, epsilon=90)
    board.add()
    assert exact(board) == [[8]]


def test_what_cannot_go_on_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    database = opened(tmp_path, [(1, "er", 1)])
    good: dict[str, Any] = {"every": "day", "horizon": 4, "epsilon": 1}
    for sql, more in (
        ("SELECT dept, AVG(cost) FROM visits GROUP BY dept", {}),
        ("SELECT dept, COUNT(*), SUM(cost) FROM visits GROUP BY dept", {}),
        ("SELECT COUNT(*) + 1 FROM visits", {}),
        ("SELECT COUNT(*) FROM visits GROUP BY dept", {}),
        (SQL + " HAVING COUNT(*) > 3", {}),
        (SQL + " ORDER BY dept LIMIT 1", {}),
        ("SELECT cost, COUNT(*) FROM visits GROUP BY cost + cost", {}),
        ("SELECT", {}),
        (SQL, {"every": "moment"}),
        (SQL, {"horizon": 0}),
        (SQL, {"epsilon": 0}),
        (SQL, {"epsilon": None}),
        (SQL, {"rho": 1}),
        (SQL, {"shows": "nothing"}),
        (SQL, {"start": "someday"}),
        (SQL, {"start": "2026-01-02", "every": "month"}),
        (SQL, {"participations": 0}),
        (SQL, {"separation": 0}),
        (SQL, {"path": tmp_path / "data" / "s"}),
        (DATED, {}),
        ("SELECT COUNT(DISTINCT dept) AS n FROM visits", {"participations": 2}),
    ):
        with pytest.raises(Refusal):
            streams.publish(database, sql, **{**good, **more})
    nothing: Any = None
    with pytest.raises(Refusal):
        streams.publish(database, nothing, **good)
    for path in (5, "", ".", b"s", "\0", "\ud800"):
        with pytest.raises(Refusal):
            streams.publish(database, SQL, **{**good, "path": path})
    with pytest.raises(BudgetExhausted):
        streams.publish(database, SQL, every="day", horizon=4, epsilon=10**4)
    assert database.history() == ()


def test_an_analyst_does_not_publish(tmp_path: Path) -> None:
    database = opened(tmp_path, [(1, "er", 1)], analysts={"research": {"epsilon": 1}})
    analyst = database.as_analyst("research")
    with pytest.raises(BadParameter, match="owner"):
        streams.publish(analyst, SQL, every="day", horizon=4, epsilon=1)


def test_another_question_does_not_go_on_with_the_same_file(tmp_path: Path) -> None:
    database = opened(tmp_path, [(1, "er", 1)])
    place = tmp_path / "s"
    streams.publish(database, SQL, every="day", horizon=4, epsilon=1, path=place).close()
    for sql, epsilon in ((SQL, 2), (SQL.replace("COUNT(*)", "SUM(cost)"), 1)):
        with pytest.raises(BadParameter, match="another stream"):
            streams.publish(database, sql, every="day", horizon=4, epsilon=epsilon, path=place)
    assert Fraction(1, 100) >= database.budget().used > 0  # one stream of epsilon 1, and nothing of the refused ones


def test_grouped_questions_with_undeclared_keys_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [(1, "er", 1)])
    database = sfumato.open(
        {
            "source": f"parquet:{tmp_path / 'data'}",
            "ledger": f"sqlite:{tmp_path / 'clinic.ledger'}",
            "budget": {"epsilon": 3, "delta": "1e-6"},
            "tables": {"visits": {"unit": "rows", "columns": {"dept": {"type": "text"}}}},
        }
    )
    with pytest.raises(UnsupportedSql, match="not declared"):
        streams.publish(database, SQL, every="day", horizon=4, epsilon=1)
