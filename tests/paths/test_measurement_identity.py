"""What is charged is what is measured: spelling, order, limits, aliases and outer arithmetic cost nothing."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.paths.shapes import SHAPES
from tests.paths.worlds import SCHEMA, a_world, policy, write

import sfumato
from sfumato.database import PAID_NOTE
from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.time_limit import PlanningClock
from sfumato.errors import EngineFailed, Refusal
from sfumato.lab.generators.grammar import Grammar
from sfumato.planning.fingerprint import tables_read
from sfumato.planning.measurement_identity import cells_prefix
from sfumato.prepare import Prepared, RequestedPrice

PRICE = RequestedPrice("1", None, None, "1e-7")
RANDOM_QUESTIONS = 150
GROUPED = "SELECT dept, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY dept"
SPELLINGS = (
    "select DEPT as key, count(*) number, avg(COST) from VISITS group by 1",
    "SELECT AVG(cost) AS c, COUNT(*) AS n, dept FROM visits GROUP BY dept",
    f"{GROUPED} ORDER BY 3 DESC",
    f"{GROUPED} LIMIT 1001",
    f"{GROUPED} ORDER BY n DESC LIMIT 2 OFFSET 1",
    f"{GROUPED} HAVING COUNT(*) > 3",
    "SELECT dept, COUNT(*) AS n, AVG(cost) AS c FROM visits WHERE 1 = 1 GROUP BY dept",
    "SELECT dept, COUNT(*) AS n, AVG(cost) AS c FROM visits WHERE TRUE AND NOT 1 > 2 AND 'a' <> 'b' GROUP BY dept",
    "SELECT v.dept, COUNT(*), AVG(v.cost) FROM visits AS v GROUP BY v.dept",
    "SELECT d, COUNT(*), AVG(x) FROM (SELECT cost AS x, dept AS d, age FROM visits) AS inner_rows GROUP BY d",
    "WITH rows AS (SELECT * FROM visits) SELECT dept, COUNT(*), AVG(cost) FROM rows GROUP BY dept",
    f"SELECT * FROM ({GROUPED}) AS t WHERE t.dept = 'er'",  # noqa: S608
    f"SELECT UPPER(dept), n * 2 + 1, c / 10 FROM ({GROUPED}) AS t WHERE n > 0 OR c < 3",  # noqa: S608
    f"SELECT dept, n, RANK() OVER (ORDER BY n DESC), SUM(n) OVER () FROM ({GROUPED}) AS t ORDER BY 3",  # noqa: S608
    f"SELECT a.dept, a.n, b.c FROM ({GROUPED}) AS a JOIN ({GROUPED}) AS b ON a.dept = b.dept",  # noqa: S608
    f"SELECT SUM(n) FROM ({GROUPED}) AS t",  # noqa: S608
    "SELECT dept, COUNT(*) FILTER (WHERE TRUE), AVG(cost) FROM visits GROUP BY dept",
)
DIFFERENT = (
    *("SELECT COUNT(*) FROM visits", "SELECT COUNT(cost) FROM visits", "SELECT COUNT(*) FROM patients"),
    *("SELECT SUM(cost) FROM visits", "SELECT SUM(age) FROM visits", "SELECT SUM(DISTINCT age) FROM visits"),
    *("SELECT SUM(cost) FROM visits WHERE age > 3", "SELECT SUM(cost) FROM visits WHERE age >= 3"),
    *("SELECT SUM(cost) FROM visits WHERE age > 3 OR urgent", "SELECT SUM(cost) FROM visits WHERE age > 3 AND urgent"),
    *("SELECT SUM(cost) FILTER (WHERE age > 3) FROM visits", "SELECT SUM(LEAST(cost, 3)) FROM visits"),
    *("SELECT COUNT(*) FROM visits WHERE age - score > 3", "SELECT COUNT(*) FROM visits WHERE score - age > 3"),
    *("SELECT COUNT(*) FROM visits WHERE dept = 'er'", "SELECT COUNT(*) FROM visits WHERE city = 'er'"),
    "SELECT dept, COUNT(*) FROM visits GROUP BY dept",
    "SELECT dept, COUNT(*) FROM visits WHERE dept IN ('er', 'icu') GROUP BY dept",
    "SELECT city, COUNT(*) FROM visits GROUP BY city",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 2) COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM visits v JOIN patients p USING (patient_id)",
    "SELECT COUNT(*) FROM visits v LEFT JOIN patients p USING (patient_id)",
    "SELECT COUNT(*) FROM visits v JOIN visits w USING (patient_id) WHERE v.age > 3",
    "SELECT COUNT(*) FROM visits v JOIN visits w USING (patient_id) WHERE v.age > w.age",
    "SELECT COUNT(*) FROM visits v JOIN visits w USING (patient_id) WHERE v.age > 3 AND w.cost > 1",
    "SELECT COUNT(*) FROM visits v JOIN visits w USING (patient_id) WHERE v.age > 3 AND v.cost > 1",
    "SELECT SUM(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY 1) t",
    "SELECT SUM(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY 1) t WHERE n > 1",
    "SELECT SUM(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits WHERE age > 1 GROUP BY 1) t",
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY day) AS r, age FROM visits) t "
    "WHERE r = 1 AND age > 3",
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY day) AS r, age FROM visits "
    "WHERE age > 3) t WHERE r = 1",
)
"""No two of them measure the same, though some differ in one character."""


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sfumato.Database]:
    folder = tmp_path_factory.mktemp("identity")
    write(folder, a_world(5, people=30))
    with sfumato.open(policy(folder, analysts={"press": {"epsilon": 900}}, answers="shared")) as database:
        yield database


@pytest.fixture
def own(tmp_path: Path) -> Iterator[sfumato.Database]:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path)) as database:
        yield database


def prepared(database: sfumato.Database, sql: str) -> Prepared | None:
    try:
        return database.prepare(sql, None, PRICE)
    except EngineFailed:
        raise
    except Refusal:
        return None


def names(database: sfumato.Database, sql: str) -> set[str]:
    """Return the identities of all plans that may answer a question; empty where it is refused or free."""
    try:
        read = database._preparation._read(sql, None, database.engine, PlanningClock())
        target = database._preparation._price_target(PRICE, read.query.options)
        return {one.fingerprint for one in database._preparation._plans_of(read, target, _tables(read)).names}
    except EngineFailed:
        raise
    except Refusal:
        return set()


def _tables(read: Any) -> set[str]:
    return tables_read(read.query.relation)


@pytest.mark.parametrize("sql", SPELLINGS)
def test_another_spelling_shows_the_same_numbers_and_costs_nothing(clinic: sfumato.Database, sql: str) -> None:
    first = clinic.ask(GROUPED, epsilon=1)
    charges, spent = clinic.charges(), clinic.budget().spent
    again = clinic.ask(sql, epsilon=1)
    assert (clinic.charges(), clinic.budget().spent) == (charges, spent)
    assert again.receipt == first.receipt
    shown = {value for row in first.rows() for value in (row["n"], row["c"])}
    plain = {value for row in again.rows() for value in row.values() if isinstance(value, int | float)}
    if not any(word in sql for word in ("*", "OVER", "SUM(")):
        assert plain <= shown


def test_the_same_numbers_have_the_same_intervals_in_every_order(clinic: sfumato.Database) -> None:
    first = {row["dept"]: (row["n"], row["c"]) for row in clinic.ask(GROUPED, epsilon=1).intervals()}
    other = clinic.ask("SELECT AVG(cost) AS c, COUNT(*) AS n, dept FROM visits GROUP BY dept ORDER BY 2", epsilon=1)
    assert {row["dept"]: (row["n"], row["c"]) for row in other.intervals()} == first


def test_every_shape_is_one_charge_with_what_is_computed_above_it(clinic: sfumato.Database) -> None:
    """Wrapped in an outer query, sorted or cut above, a question measures what it measured."""
    compared = 0
    for sql in SHAPES:
        asked = prepared(clinic, sql)
        if asked is None or asked.plan.event is None:
            continue
        for around in ("SELECT * FROM ({}) AS again", "SELECT 1 AS x, t.* FROM ({}) AS t ORDER BY 1 LIMIT 100000"):
            if found := names(clinic, around.format(sql)):
                assert asked.fingerprint in found, (sql, around)
                compared += 1
    assert compared > 200


def test_questions_that_measure_something_else_have_other_identities(clinic: sfumato.Database) -> None:
    found = {sql: asked.fingerprint for sql in DIFFERENT if (asked := prepared(clinic, sql)) is not None}
    assert [sql for sql in DIFFERENT if sql not in found] == []
    assert len(set(found.values())) == len(found)


def test_one_identity_means_the_same_exact_numbers(clinic: sfumato.Database) -> None:
    """Over all shapes and random questions: what would be measured under one identity is the same, to the integer."""
    grammar = Grammar(SCHEMA, Random(31))
    texts = [*SHAPES, *(grammar.query() for _ in range(RANDOM_QUESTIONS))]
    variants = [text for text in texts for text in (text, text.replace(" WHERE ", " WHERE 1 = 1 AND ", 1))]
    exact: dict[str, tuple[str, str]] = {}
    shared = 0
    for sql in dict.fromkeys(variants):
        asked = prepared(clinic, sql)
        if asked is None or asked.plan.event is None or asked.names.measured is None:
            continue
        numbers = json.dumps(_exact(asked))
        known, other = exact.setdefault(asked.fingerprint, (numbers, sql))
        assert known == numbers, (sql, other)
        shared += other != sql
    assert shared > 40


def _exact(asked: Prepared) -> list[object]:
    """Return the exact aggregates of a question in the order of its identity."""
    if any(group.is_bound_selection for group in asked.plan.groups):
        return []
    aggregates = asked.engine.run(asked.job)
    found: list[object] = []
    assert asked.names.measured is not None
    for measured in asked.names.measured.groups:
        group = aggregates.groups[measured.place]
        columns = [group.columns.get(name) for name in measured.columns]
        cells = [
            json.dumps(
                [[key[at] for at in measured.keys]]
                + [None if column is None else np.asarray(column)[place].tolist() for column in columns],
                default=str,
            )
            for place, key in enumerate(group.keys)
        ]
        found.append(sorted(cells))
    return found


def test_kept_numbers_belong_to_their_own_columns(own: sfumato.Database) -> None:
    """Several aggregates together show what each of them shows alone; intervals miss each other once in 10**8."""
    aggregates, sure = ("SUM(age * age)", "COUNT(*)", "SUM(age)"), "0.9999999999"
    alone = []
    for one in aggregates:
        answer = own.ask(f"SELECT dept, {one} AS x FROM visits GROUP BY dept", epsilon=50)  # noqa: S608
        alone.append({row["dept"]: row["x"] for row in answer.intervals(sure)})
    columns = ", ".join(f"{one} AS x{at}" for at, one in enumerate(aggregates))
    together = own.ask(f"SELECT {columns}, dept FROM visits GROUP BY dept", epsilon=300)  # noqa: S608
    for row in together.intervals(sure):
        for at, known in enumerate(alone):
            assert row[f"x{at}"][0] <= known[row["dept"]][1]
            assert row[f"x{at}"][1] >= known[row["dept"]][0]


def test_twelve_tiles_refreshed_ten_times_cost_once(own: sfumato.Database) -> None:
    keys, measures = ("dept", "urgent", "age / 5"), ("COUNT(*)", "SUM(cost)", "AVG(age)", "COUNT(DISTINCT patient_id)")
    tiles = [(key, measure) for key in keys for measure in measures]
    tails = ("", " ORDER BY 1", " ORDER BY 2", " ORDER BY 1 DESC LIMIT 50", " LIMIT 1000")
    for turn in range(10):
        for key, measure in tiles:
            columns = f"{key} AS k, {measure} AS m{turn % 3}"
            where = " WHERE 1 = 1" if turn % 2 else ""
            sql = f"SELECT {columns} FROM visits{where} GROUP BY 1{tails[turn % len(tails)]}"  # noqa: S608
            own.ask(sql, epsilon="0.1")
    assert own.charges() == len(tiles) == 12


def test_two_spellings_at_the_same_time_are_one_charge(own: sfumato.Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(lambda sql: own.ask(sql, epsilon=1).receipt, (GROUPED, *SPELLINGS[:5]) * 3))
    # whoever comes just when the answer is stored may get it from kept measurements, which has a receipt of its own
    paid = {receipt.id for receipt in receipts if not receipt.rests_on}
    assert len(paid) == own.charges() == 1
    assert all(set(receipt.rests_on) <= paid for receipt in receipts)


def test_another_spelling_takes_up_a_charge_that_failed(own: sfumato.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DuckDB, "run", stopped)
        with pytest.raises(KeyboardInterrupt):
            own.ask(GROUPED, epsilon=1, key="first")
    for sql in SPELLINGS[1:4]:
        assert own.ask(sql, epsilon=1, key="first").receipt.sequence == 2
    assert own.charges() == 1
    assert own.verify()


def test_an_answer_in_another_spelling_is_opened_again_by_its_receipt(own: sfumato.Database) -> None:
    first = own.ask(SPELLINGS[1], epsilon=1)
    assert own.ask(GROUPED, epsilon=1).receipt == first.receipt
    assert own.reopen(first.receipt.id).rows() == first.rows()


def test_other_accounts_have_the_answer_where_answers_are_shared(clinic: sfumato.Database) -> None:
    first = clinic.ask(GROUPED, epsilon=1)
    with clinic.as_analyst("press") as press:
        assert press.ask(SPELLINGS[1], epsilon=1).receipt == first.receipt


def test_questions_that_are_asked_together_have_one_charge_in_any_order(own: sfumato.Database) -> None:
    questions = [
        GROUPED,
        "SELECT SUM(age) AS s FROM visits",
        "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex",
    ]
    first = own.ask_all(questions, epsilon=1)
    other = own.ask_all([f"{sql} LIMIT 1000" for sql in reversed(questions)], epsilon=1)
    assert own.charges() == 1
    assert [release.rows() for release in reversed(other)] == [release.rows() for release in first]


def test_an_identity_begins_with_the_identity_of_its_cells(clinic: sfumato.Database) -> None:
    asked = prepared(clinic, GROUPED)
    assert asked is not None
    measured = asked.names.measured
    assert measured is not None
    assert measured.text.startswith(cells_prefix(measured.cells))
    other = clinic.prepare(GROUPED, None, replace(PRICE, epsilon="0.5")).names.measured
    assert other is not None
    assert other.cells == measured.cells
    assert other.text != measured.text


COARSER = (
    GROUPED,
    "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept",
    "SELECT dept, AVG(cost) AS c FROM visits GROUP BY dept ORDER BY c",
    "SELECT COUNT(*) AS n, dept FROM visits WHERE 1 = 1 GROUP BY dept ORDER BY dept DESC LIMIT 2",
)


@pytest.mark.parametrize("sql", COARSER)
def test_a_question_that_asks_for_less_than_is_kept_is_free_and_has_its_intervals(
    own: sfumato.Database, sql: str
) -> None:
    first = own.ask(GROUPED, epsilon=2)
    quote = own.explain(sql, epsilon="0.5")
    assert PAID_NOTE in quote.notes
    assert quote.loss.epsilon == quote.share == 0
    assert quote.loss_if_new is not None
    assert quote.loss_if_new.epsilon == Fraction(1, 2)
    assert str(quote).startswith(f"price: {quote.loss} (already paid; new, it would cost {quote.loss_if_new})")
    again = own.ask(sql, epsilon="0.5")
    assert own.charges() == 1
    # the number of all rows is a sum of measured counts, and so it rests on them
    assert again.receipt == first.receipt or again.receipt.rests_on == (first.receipt.id,)
    numbers, bars = ({row["dept"]: row for row in rows} for rows in (first.rows(), first.intervals()))
    for row, ends in zip(again.rows(), again.intervals(), strict=True):
        for name in set(row) - {"dept"}:
            assert row[name] == numbers[row["dept"]][name]
            assert ends[name] == bars[row["dept"]][name]


def test_a_question_that_asks_for_more_than_is_kept_is_charged(own: sfumato.Database) -> None:
    own.ask(GROUPED, epsilon="0.5")
    own.ask(GROUPED, epsilon=1)
    own.ask("SELECT dept, COUNT(*), AVG(cost), SUM(age) FROM visits GROUP BY dept", epsilon="0.1")
    own.ask("SELECT urgent, COUNT(*) FROM visits GROUP BY urgent", epsilon="0.1")
    assert own.charges() == 4


def test_selected_keys_and_quantiles_of_a_larger_price_answer_for_less(own: sfumato.Database) -> None:
    questions = ("SELECT city, COUNT(*) AS n FROM visits GROUP BY city", "SELECT MEDIAN(age) AS m FROM visits")
    for charged, sql in enumerate(questions, 1):
        first = own.ask(sql, epsilon=8)
        assert own.ask(f"{sql} LIMIT 1000", epsilon=2).rows() == first.rows()
        assert own.charges() == charged


def test_the_kept_answers_of_another_account_stay_its_own(tmp_path: Path) -> None:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path, analysts={"press": {"epsilon": 900}})) as owner:
        first = owner.ask(GROUPED, epsilon=2)
        with owner.as_analyst("press") as press:
            assert press.ask(GROUPED, epsilon=1).receipt != first.receipt


def test_measurements_of_another_snapshot_are_not_kept(own: sfumato.Database) -> None:
    own.ask(GROUPED, epsilon=2)
    own.refresh()
    own.ask(GROUPED, epsilon=1)
    assert own.charges() == 2
