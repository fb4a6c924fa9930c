"""Cohorts on the whole path: who pays is proved from the text, and nobody else is read, whoever moved."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime as real_datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sfumato
from sfumato.database import Database
from sfumato.engines.cohort_set import cohorts_of
from sfumato.engines.sql import cohorts as kept_cohorts
from sfumato.errors import BadParameter, BadPolicy, BudgetExhausted, PolicyWeakened
from sfumato.prepare import RequestedPrice

REGIONS = ["north", "south", "west"]
NORTH = "SELECT COUNT(*) AS n FROM patients WHERE region = 'north'"
HUGE = 10**6
"""At this epsilon the noise is 0 but once in e^HUGE: what is read is seen."""


def _policy(folder: Path, people: pl.DataFrame, visits: pl.DataFrame, **more: Any) -> dict[str, Any]:
    columns = {"id": {"type": "integer"}, "region": {"type": "text", "values": REGIONS}}
    visit = {
        "id": {"type": "integer"},
        "day": {"type": "date", "bounds": ["2020-01-01", "2029-12-31"]},
        "cost": {"type": "integer", "bounds": [0, 9]},
    }
    return {
        "name": "clinic",
        "source": {"patients": people, "visits": visits},
        "ledger": f"sqlite:{folder / 'ledger'}",
        "cohort": "patients.region",
        "budget": {"epsilon": 4 * HUGE, "delta": 0},
        "tables": {
            "patients": {"unit": "id", "rows_per_unit": 1, "columns": columns},
            "visits": {"unit": "id", "rows_per_unit": 3, "columns": visit},
        },
        **more,
    }


def _people(regions: dict[int, str | None]) -> pl.DataFrame:
    return pl.DataFrame({"id": list(regions), "region": list(regions.values())}, {"id": pl.Int64, "region": pl.String})


def _visits(days: list[tuple[int, str | None]]) -> pl.DataFrame:
    frame = pl.DataFrame(days, {"id": pl.Int64, "day": pl.String}, orient="row")
    return frame.with_columns(pl.col("day").str.to_date(), cost=pl.lit(1))


SOME = _people({1: "north", 2: "north", 3: "south", 4: None, 5: "mars"})
DAYS = [(1, "2021-02-03"), (1, "2023-01-01"), (2, "2022-05-05"), (3, "2023-05-05"), (4, None), (6, "2028-01-01")]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return one database for several laws: they ask unique questions, or more exactly than before."""
    with sfumato.open(_policy(tmp_path_factory.mktemp("clinic"), SOME, _visits(DAYS))) as opened:
        yield opened


TEXTS = {
    NORTH: ("north",),
    "SELECT COUNT(*) FROM patients WHERE region IN ('north', 'south')": ("north", "south"),
    "SELECT COUNT(*) FROM patients WHERE region = 'north' OR region = 'west'": ("north", "west"),
    "SELECT COUNT(*) FROM patients WHERE region IN ('north', 'south') AND region <> 'x' AND region = 'south'": (
        "south",
    ),
    "SELECT SUM(cost) FROM visits JOIN patients USING (id) WHERE region = 'west'": ("west",),
    "SELECT SUM(cost) FROM visits v JOIN patients p ON v.id = p.id AND p.region = 'west'": ("west",),
    "SELECT SUM(v.cost) FROM patients p LEFT JOIN visits v ON v.id = p.id WHERE p.region = 'south'": ("south",),
    "SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM patients WHERE region = 'south' GROUP BY id) t": ("south",),
    "SELECT region, COUNT(*) FROM patients WHERE region = 'north' GROUP BY region": ("north",),
    "SELECT COUNT(*) FROM patients": None,
    "SELECT region, COUNT(*) FROM patients GROUP BY region": None,
    "SELECT COUNT(*) FROM visits WHERE cost = 1": None,
    "SELECT COUNT(*) FROM patients WHERE region = 'north' OR region IS NULL": None,
    "SELECT COUNT(*) FROM patients WHERE NOT region = 'north'": None,
    "SELECT COUNT(*) FILTER (WHERE region = 'north') FROM patients": None,
}


@pytest.mark.parametrize("sql", TEXTS)
def test_the_text_says_who_pays(database: Database, sql: str) -> None:
    everyone, price = (*REGIONS, "other"), 1 + list(TEXTS).index(sql)
    assert database.explain(sql, epsilon=price).cohorts == (TEXTS[sql] or everyone)
    before = database.budget().cohorts
    release = database.ask(sql, epsilon=price)
    assert release.receipt.cohorts == (TEXTS[sql] or everyone)
    paid = {name for name, budget in database.budget().cohorts.items() if budget.used > before[name].used}
    assert paid == set(TEXTS[sql] or everyone)
    assert any("stays in the cohort" in note for note in release.notes) == (TEXTS[sql] is not None)


def test_questions_asked_together_are_paid_by_all_their_cohorts(database: Database) -> None:
    first, second = database.ask_all([NORTH, TEXTS_OF_SOUTH], epsilon=2 * HUGE)
    assert first.receipt.cohorts == second.receipt.cohorts == ("north", "south")
    assert (first.rows(), second.rows()) == ([{"n": 2}], [{"n": 1}])


TEXTS_OF_SOUTH = "SELECT COUNT(*) AS n FROM patients WHERE region = 'south'"


MOVES = [("north", "north"), ("north", "south"), (None, "south"), ("south", None), ("mars", "west")]


@pytest.mark.parametrize(("first", "later"), MOVES)
def test_a_person_who_moves_is_read_by_the_questions_of_their_first_cohort_alone(
    tmp_path: Path, first: str | None, later: str | None
) -> None:
    """Over all moves: no question that another cohort pays for changes with that person's rows, in any table."""
    others = {2: "north", 3: "south", 4: "west"}
    home = first if first in REGIONS else "other"
    seen = []
    for place, present in enumerate((True, False)):
        folder = tmp_path / str(place)
        folder.mkdir()
        before, after = ({**others, **({1: region} if present else {})} for region in (first, later))
        days: list[tuple[int, str | None]] = [(one, "2021-01-01") for one in after]
        policy = _policy(folder, _people(before), _visits(days))
        sfumato.open(policy).close()
        with sfumato.open({**policy, "source": {"patients": _people(after), "visits": _visits(days)}}) as database:
            database.refresh()
            seen.append(_counts(database))
    for cohort in REGIONS:
        changed = {kind for kind in ("patients", "visits") if seen[0][cohort, kind] != seen[1][cohort, kind]}
        assert not changed or (cohort == home and later == first)
    assert seen[0]["all", "patients"] == seen[1]["all", "patients"] + 1  # what all pay for reads everybody


def _counts(database: Database) -> dict[tuple[str, str], int]:
    found = {}
    for cohort in REGIONS:
        condition = f"region = '{cohort}'"
        for kind, rows in (("patients", "patients"), ("visits", "visits JOIN patients USING (id)")):
            release = database.ask(f"SELECT COUNT(*) AS n FROM {rows} WHERE {condition}", epsilon=HUGE)  # noqa: S608
            assert release.receipt.cohorts == (cohort,)
            found[cohort, kind] = release.rows()[0]["n"]
    found["all", "patients"] = database.ask("SELECT COUNT(*) AS n FROM patients", epsilon=HUGE).rows()[0]["n"]
    return found


def test_people_who_were_away_come_back_into_their_first_cohort(tmp_path: Path) -> None:
    visits = _visits([])
    policy = _policy(tmp_path, _people({1: "north", 2: "south"}), visits)
    with sfumato.open(policy) as database:
        assert database.ask(NORTH, epsilon=HUGE).rows() == [{"n": 1}]
    for regions, north, south in (({2: "south"}, 0, 1), ({1: "south", 2: "north", 3: "north"}, 1, 0)):
        with sfumato.open({**policy, "source": {"patients": _people(dict(regions)), "visits": visits}}) as database:
            database.refresh()
            assert database.ask(NORTH, epsilon=HUGE).rows() == [{"n": north}]  # 3 is new; 1 and 2 moved
            assert database.ask(TEXTS_OF_SOUTH, epsilon=HUGE).rows() == [{"n": south}]


def test_a_statement_keeps_to_the_cohorts_that_pay_in_every_table(database: Database) -> None:
    """Also where a join would drop the others: what is charged does not rest on the text."""
    joined = "SELECT SUM(cost) FROM visits JOIN patients USING (id)"
    for where, tables in ((" WHERE region = 'north'", 2), ("", 0)):
        (statement,) = database.statements(joined + where, epsilon=1)
        assert statement.sql.count('copy.main.".cohorts"') == tables
    with_removed = "SELECT COUNT(*) FROM \"visits.removed\" JOIN patients USING (id) WHERE region IN ('west')"
    (statement,) = database.statements(with_removed, epsilon=1)
    assert statement.sql.count('copy.main.".cohorts"') == 2


def test_where_other_cohorts_pay_another_measurement_is_bought(database: Database) -> None:
    """The same words about the people of other cohorts are other rows: neither a repeat nor a view of them."""
    preparation, engine = database._preparation, database.engine
    (read,) = preparation.analyse_all([NORTH], engine)
    found = set()
    for cohorts in (("north",), ("north", "south"), None):
        asked = replace(read, private=replace(read.private, cohorts=cohorts), key=None)
        prepared = preparation.prepare_analysed(asked, RequestedPrice(epsilon=1), None, engine)
        measured = prepared.names.measured
        assert measured is not None
        found |= {prepared.fingerprint, measured.cells, *(one.base for one in measured.signatures if one)}
    assert len(found) == 9


def test_a_lost_assignment_costs_budget_and_no_privacy(tmp_path: Path) -> None:
    policy = _policy(tmp_path, _people({1: "north", 2: "south"}), _visits([]), budget={"epsilon": 1, "delta": 0})
    with sfumato.open(policy) as database:
        database.ask(NORTH, epsilon="0.75")
        kept = cohorts_of(database.engine)
    with sfumato.open(policy) as database:
        database.refresh()
        assert cohorts_of(database.engine) == kept
    (tmp_path / "ledger.copy.cohorts").unlink()
    moved = {**policy, "source": {"patients": _people({1: "south", 2: "south"}), "visits": _visits([])}}
    with sfumato.open(moved) as database:
        database.refresh()
        assert cohorts_of(database.engine) != kept
        assert {budget.used for budget in database.budget().cohorts.values()} == {0.75}
        with pytest.raises(BudgetExhausted):
            database.ask(TEXTS_OF_SOUTH, epsilon="0.5")
        database.ask(TEXTS_OF_SOUTH, epsilon="0.25")
        database.verify()


def test_each_cohort_has_the_whole_budget(tmp_path: Path) -> None:
    analysts = {"research": {"epsilon": 1}}
    policy = _policy(tmp_path, SOME, _visits(DAYS), budget={"epsilon": 2, "delta": 0}, analysts=analysts)
    with sfumato.open(policy) as owner:
        research = owner.as_analyst("research")
        for region in REGIONS:
            research.ask(NORTH.replace("north", region), epsilon=1)
            assert research.budget(cohort=region).used == 1
        assert research.budget(cohort="other").used == 0
        with pytest.raises(BudgetExhausted, match="the cohort north of research"):
            research.ask("SELECT COUNT(*) AS n FROM patients", epsilon="0.5")
        assert owner.budget().used == owner.budget(cohort="north").used == 0.5
        with pytest.raises(BadParameter, match="is not a cohort"):
            owner.budget(cohort="east")
        research.close()


def test_a_role_without_the_column_sees_no_cohort(tmp_path: Path) -> None:
    more = {
        "budget": {"epsilon": 1, "delta": 0},
        "roles": {"costs": {"columns": ["visits.cost"]}},
        "analysts": {"research": {"epsilon": 1, "roles": ["costs"]}},
    }
    with sfumato.open(_policy(tmp_path, SOME, _visits(DAYS), **more)) as owner:
        research = owner.as_analyst("research")
        owner.ask(NORTH, epsilon="0.5")
        sql = "SELECT SUM(cost) AS total FROM visits"
        assert research.explain(sql, epsilon="0.25").cohorts == ()
        assert research.ask(sql, epsilon="0.25").receipt.cohorts == ()
        assert research.budget().cohorts == {}
        with pytest.raises(BadParameter, match="does not divide"):
            research.budget(cohort="north")
        with pytest.raises(BudgetExhausted) as refusal:
            research.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.5")
        assert not any(name in str(refusal.value) for name in REGIONS)
        assert owner.budget(cohort="north").used == 0.75
        research.close()


def test_an_answer_that_others_paid_for_names_no_cohort_to_a_role_without_the_column(tmp_path: Path) -> None:
    more = {
        "answers": "shared",
        "roles": {"costs": {"columns": ["visits.cost"]}, "all": {"tables": ["patients", "visits"]}},
        "analysts": {"research": {"epsilon": HUGE, "roles": ["costs", "all"]}},
    }
    sql = "SELECT SUM(cost) AS total FROM visits"
    with sfumato.open(_policy(tmp_path, SOME, _visits(DAYS), **more)) as owner:
        paid = owner.ask(sql, epsilon=1).receipt
        assert paid.cohorts == (*REGIONS, "other")
        for roles, cohorts in ((("costs",), ()), (("all",), paid.cohorts)):
            with owner.as_analyst("research", roles) as research:
                again = research.ask(sql, epsilon=1)
                assert again.repeated
                assert again.receipt.cohorts == research.reopen(paid.id).receipt.cohorts == cohorts


def _confirmed(policy: dict[str, Any]) -> Database:
    """Open under other tables, as an owner who means it."""
    with pytest.raises(PolicyWeakened) as refusal:
        sfumato.open(policy)
    return sfumato.open(policy, confirm=str(refusal.value).rpartition("--confirm ")[2].rstrip("."))


def test_people_of_a_cohort_that_is_not_declared_any_more_still_pay(tmp_path: Path) -> None:
    """They stay in it, so whoever reads everybody charges them, too."""
    policy = _policy(tmp_path, SOME, _visits(DAYS))
    with sfumato.open(policy) as database:
        database.ask(NORTH, epsilon=HUGE)
    policy["tables"]["patients"]["columns"]["region"]["values"] = ["south", "west"]
    with _confirmed(policy) as database:
        everyone = database.ask("SELECT COUNT(*) AS n FROM patients", epsilon=HUGE)
        assert set(everyone.receipt.cohorts) == {*REGIONS, "other"}
        assert everyone.rows() == [{"n": 5}]
        assert database.budget(cohort="north").used == database.budget().used == 0.5
        database.verify()


@pytest.mark.parametrize("bounds", [None, ["2023-01-01", "2029-12-31"]])
def test_a_window_that_was_open_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: list[str] | None
) -> None:
    """Whether the clock goes back, or the owner raises the lower bound: people stay in the windows that they had."""
    monkeypatch.setattr(kept_cohorts, "datetime", _Clock)
    monkeypatch.setattr(_Clock, "year_now", 2023)
    policy = _policy(tmp_path, SOME, _visits(DAYS), cohort='first(visits.day, "year")')
    with sfumato.open(policy) as database:
        before = set(database.budget().cohorts)
    monkeypatch.setattr(_Clock, "year_now", 2021 if bounds is None else 2023)
    if bounds is not None:
        policy["tables"]["visits"]["columns"]["day"]["bounds"] = bounds
    with sfumato.open(policy) as database:
        database.refresh()
        assert set(database.budget().cohorts) == before
        late = database.ask("SELECT COUNT(*) AS n FROM visits WHERE day < '2024-01-01'", epsilon=HUGE)
        assert {"2021", "2022", "2023"} <= set(late.receipt.cohorts)


def test_another_assignment_is_another_snapshot(tmp_path: Path) -> None:
    """The same name stands for other people then: no answer about the people before is repeated, refined or used."""
    data = tmp_path / "data"
    data.mkdir()
    SOME.write_parquet(data / "patients.parquet")
    _visits(DAYS).write_parquet(data / "visits.parquet")
    policy = {**_policy(tmp_path, SOME, _visits(DAYS)), "source": f"parquet:{data}"}
    versions = []
    for lost in ((), ("copy-*",), ("copy-*", "copy.cohorts")):
        for name in lost:
            for file in tmp_path.glob(f"ledger.{name}"):
                file.unlink()
        with sfumato.open(policy) as database:
            versions.append(database.version)
    assert versions[0] == versions[1] != versions[2]


class _Clock(real_datetime):
    """The time at which snapshots are taken."""

    year_now = 2022

    @classmethod
    def now(cls, tz: object = None) -> real_datetime:  # type: ignore[override]
        return real_datetime(cls.year_now, 7, 1)


def test_people_who_come_next_year_bring_a_budget_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_cohorts, "datetime", _Clock)
    monkeypatch.setattr(_Clock, "year_now", 2022)
    more = {"cohort": 'first(visits.day, "year")', "budget": {"epsilon": 1, "delta": 0}}
    policy = _policy(tmp_path, SOME, _visits(DAYS), **more)
    firsts = "SELECT id, MIN(day) AS first FROM visits GROUP BY id"
    by_first = f"SELECT COUNT(*) AS n FROM ({firsts}) t WHERE first >= '{{}}-01-01' AND first < '{{}}-01-01'"  # noqa: S608
    with sfumato.open(policy) as database:
        assert database.budget().cohorts.keys() == {"2020", "2021", "2022", "other"}
        early = database.ask("SELECT COUNT(*) AS n FROM visits WHERE day < '2022-01-01'", epsilon="0.5")
        assert early.receipt.cohorts == ("2020", "2021")
        assert database.explain(by_first.format(2022, 2023), epsilon="0.5").cohorts == ("2022",)
        database.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.5")
        assert {name: float(one.used) for name, one in database.budget().cohorts.items()} == {
            "2020": 1, "2021": 1, "2022": 0.5, "other": 0.5,
        }  # fmt: skip
        with pytest.raises(BudgetExhausted):
            database.ask("SELECT COUNT(DISTINCT id) AS n FROM visits", epsilon="0.5")
        monkeypatch.setattr(_Clock, "year_now", 2023)
        database.refresh()
        assert database.budget(cohort="2023").used == 0
        database.ask(by_first.format(2023, 2024), epsilon=1)
        assert database.budget(cohort="2023").used == 1
        database.verify()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cohort": "patients.nothing"}, "names no column"),
        ({"cohort": "visits.cost"}, "declared values"),
        ({"cohort": "patients.id"}, "by another column"),
        ({"cohort": 'first(visits.day, "hour")'}, "a month, a quarter or a year"),
        ({"cohort": 'first(visits.cost, "year")'}, "with bounds"),
        ({"neighbours": "replace"}, "would cost both budgets"),
    ],
)
def test_cohorts_that_cannot_be_kept_are_refused(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    with pytest.raises(BadPolicy, match=why):
        sfumato.open({**_policy(tmp_path, SOME, _visits(DAYS)), **change})


COUNT_VISITS = "SELECT COUNT(*) AS n FROM visits WHERE {}"
IN_TIME = {
    "EXTRACT(year FROM day) = 2022": "2022",
    "date_part('year', day) <= 2021": "2021",
    "year(day) IN (2020, 2021)": "2021",
    "YEAR(day) BETWEEN 2020 AND 2022": "2022",
    "EXTRACT(year FROM day) = 2020 OR EXTRACT(year FROM day) = 2022": "2022",
    "EXTRACT(year FROM day) = 2021 AND EXTRACT(month FROM day) = 3": "2021",
    "NOT EXTRACT(year FROM day) > 2020": "2020",
    "date_trunc('year', day) = DATE '2021-01-01'": "2021",
    "date_trunc('quarter', day) < DATE '2022-01-01'": "2021",
    "EXTRACT(year FROM day) - 2000 = 21": "2021",
    "EXTRACT(month FROM day) = 3": None,
    "EXTRACT(year FROM day) = 2022 OR cost = 1": None,
}
"""Conditions, and the last window in which their people can have come first; None: any."""


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_conditions_on_years_and_periods_say_who_pays(tmp_path: Path, kind: str) -> None:
    visits = _visits(DAYS)
    policy = _policy(tmp_path, SOME, visits, cohort='first(visits.day, "year")')
    if kind == "timestamp":
        policy["source"]["visits"] = visits.with_columns(pl.col("day").cast(pl.Datetime))
        policy["tables"]["visits"]["columns"]["day"] = {
            "type": "timestamp",
            "bounds": ["2020-01-01T00:00:00", "2029-12-31T00:00:00"],
        }
    with sfumato.open(policy) as own:
        for condition, last in IN_TIME.items():
            asked = own.prepare(COUNT_VISITS.format(condition), None, RequestedPrice(1))
            wanted = None if last is None else tuple(str(year) for year in range(2020, int(last) + 1))
            assert asked.plan.cohorts == wanted, condition
