"""The public contract: what a user of `sfumato.open` may rely on."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from tests.paths.worlds import World, a_world, policy, write
from tests.refusals import refusing

import sfumato
from sfumato.accounting.loss import PrivacyLoss, percent_up
from sfumato.errors import (
    BadParameter,
    BudgetExhausted,
    EngineFailed,
    ImperfectSource,
    KeysNeedDelta,
    PolicyWeakened,
    Refusal,
    UnknownName,
    UnreachableMargin,
)
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.entropy import entropy_bits
from sfumato.randomness.imperfect import Declared
from sfumato.randomness.source import system_source

COUNT = "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept"


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[sfumato.Database]:
    write(tmp_path, a_world(5, people=30))
    with sfumato.open(policy(tmp_path)) as database:
        yield database


def _pure(folder: Path, epsilon: int, **more: Any) -> dict[str, Any]:
    return policy(folder, budget={"epsilon": epsilon, "delta": 0}, **more)


def _margin(quote: sfumato.Quote) -> float:
    margin = quote.margins["n"]
    assert margin is not None
    return margin


def test_an_answer_has_rows_intervals_columns_loss_event_and_receipt(clinic: sfumato.Database) -> None:
    release = clinic.ask(COUNT, epsilon="0.5")
    rows, intervals = release.rows(), release.intervals()
    assert release.columns == ("dept", "n")
    assert [row["dept"] for row in rows] == ["er", "icu", "surgery"]
    assert all(isinstance(row["n"], int) for row in rows)
    for row, ends in zip(rows, intervals, strict=True):
        low, high = ends["n"]
        assert low <= row["n"] <= high
        assert high - low == 2 * _margin(clinic.explain(COUNT, epsilon="0.5"))
    assert release.loss == PrivacyLoss(Fraction(1, 2))
    receipt = release.receipt
    assert (receipt.sequence, receipt.timing) == (2, "none")
    assert all((receipt.head, receipt.policy, receipt.version, receipt.id, receipt.bits))


def test_a_receipt_names_the_source_its_bias_and_the_entropy_of_the_noise(clinic: sfumato.Database) -> None:
    receipt = clinic.ask(COUNT, epsilon="0.5").receipt
    assert (receipt.source, receipt.gamma, receipt.caution) == ("os-aes-256-ctr", Fraction(0), "")
    # three departments, NULL, and what is not declared
    assert receipt.needed == ceil(5 * entropy_bits(DiscreteLaplace(Fraction(2) * 3)))
    assert receipt.needed < receipt.bits


def test_a_biased_source_answers_nothing_and_costs_nothing(clinic: sfumato.Database) -> None:
    clinic.payer = replace(clinic.payer, source=Declared(system_source(), Fraction(1, 10), "dice"))
    with pytest.raises(ImperfectSource):
        clinic.ask(COUNT, epsilon="0.5")
    assert clinic.budget().spent.epsilon == 0


def test_a_wider_level_has_wider_intervals(clinic: sfumato.Database) -> None:
    release = clinic.ask(COUNT, epsilon=1)
    widths = [release.intervals(level)[0]["n"] for level in ("0.5", 0.9, Fraction(99, 100))]
    assert [high - low for low, high in widths] == sorted(high - low for low, high in widths)
    assert widths[0] != widths[2]


def test_the_same_question_is_free_and_another_price_is_another_question(clinic: sfumato.Database) -> None:
    first = clinic.ask(COUNT, epsilon="0.5")
    spent = clinic.budget().spent
    again = clinic.ask("select  Dept, count(*) as N  from public.Visits v group by 1 -- the same", epsilon=0.5)
    assert (again.rows(), again.receipt) == (first.rows(), first.receipt)
    assert clinic.budget().spent == spent
    clinic.ask(COUNT, epsilon="0.6")
    assert clinic.budget().spent.epsilon > spent.epsilon
    assert len(clinic.history()) == 2


def test_a_quote_costs_nothing_and_foretells_the_price(clinic: sfumato.Database) -> None:
    quote = clinic.explain(COUNT, epsilon="0.25")
    assert clinic.budget().spent.epsilon == 0
    assert clinic.ask(COUNT, epsilon="0.25").loss == quote.loss


def test_accuracy_first_buys_just_the_margin(clinic: sfumato.Database) -> None:
    quote = clinic.explain(COUNT, within={"n": 25})
    assert _margin(quote) <= 25
    assert quote.share is not None
    cheaper = clinic.explain(COUNT, share=quote.share * Fraction(9, 10))
    assert _margin(cheaper) > 25
    release = clinic.ask(COUNT, within={"n": 25})
    low, high = release.intervals()[0]["n"]
    assert high - low <= 50


def test_a_margin_that_no_budget_buys_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, a_world(5))
    with sfumato.open(_pure(tmp_path, 1)) as database, pytest.raises(UnreachableMargin, match="9"):
        database.ask("SELECT COUNT(*) AS n FROM visits", within={"n": 2})


def test_a_quote_says_what_the_account_will_have_used_more(tmp_path: Path) -> None:
    """After a large pure loss epsilon counts, and small questions that would cost little of a fresh budget do not."""
    write(tmp_path, a_world(5))
    with sfumato.open(policy(tmp_path, budget={"epsilon": 3, "delta": 1e-6})) as database:
        database.ask("SELECT COUNT(*) FROM patients", epsilon=1)
        prices: tuple[dict[str, Any], ...] = ({"share": "0.5%"}, {"within": {"n": 1000}}, {"share": "0.1%"})
        for age, price in enumerate(prices, 5):
            sql = f"{COUNT} WHERE age < {age}"  # less of the same rows would be free
            quote, before = database.explain(sql, **price), database.budget().used
            database.ask(sql, **price)
            after = database.budget()
            assert (quote.share, quote.used_after, quote.spent_after) == (after.used - before, after.used, after.spent)
            assert f"share: {percent_up(after.used - before)} of the budget" in str(quote)
            again = database.explain(sql, **price)
            assert (again.share, again.used_after, again.spent_after) == (Fraction(0), after.used, after.spent)


def test_an_analysts_quote_and_budget_speak_of_their_own_cap(tmp_path: Path) -> None:
    write(tmp_path, a_world(5))
    analysts = {"ada": {"epsilon": 1}, "bob": {"epsilon": 2, "delta": 1e-7}}
    with sfumato.open(policy(tmp_path, budget={"epsilon": 3, "delta": 1e-6}, analysts=analysts)) as database:
        for name, price in (("ada", "0.1"), ("bob", "0.5"), ("ada", "0.25")):
            with database.as_analyst(name) as analyst:
                quote = analyst.explain(COUNT, epsilon=price)
                analyst.ask(COUNT, epsilon=price)
                own = analyst.budget()
                assert (quote.used_after, quote.spent_after) == (own.used, own.spent)
                assert own.spent.epsilon <= database.budget().spent.epsilon
                quote = analyst.explain("SELECT SUM(1) FROM patients", epsilon="1", delta=0)
                assert ("does not fit" in str(quote)) == (quote.used_after is not None and quote.used_after > 1)


def test_what_is_left_is_shown_rounded_down_wherever_it_is_shown(tmp_path: Path) -> None:
    write(tmp_path, a_world(5))
    with sfumato.open(_pure(tmp_path, 1)) as database:
        database.ask(COUNT, epsilon="1/3")
        left = database.budget().remaining
        assert left == PrivacyLoss(Fraction(2, 3))
        assert str(left) == f"{left}" == "ε = 0.6666, δ = 0"
        assert "remaining  ε = 0.6666, δ = 0" in str(database.budget())
        assert str(database.budget().spent) == "ε = 0.3334, δ = 0"


@pytest.mark.parametrize("progress", [5, "print", [print], lambda: None, lambda phase: None, lambda a, b, c: None])
def test_what_cannot_be_told_of_progress_is_refused_before_anything_is_done(tmp_path: Path, progress: Any) -> None:
    write(tmp_path, a_world(5))
    with sfumato.open(policy(tmp_path)) as database:
        for step in (
            lambda: database.ask(COUNT, epsilon=1, progress=progress),
            lambda: database.ask_all([COUNT], epsilon=1, progress=progress),
            lambda: database.refresh(progress),
            lambda: sfumato.open(policy(tmp_path), progress=progress),
        ):
            with pytest.raises(BadParameter, match="progress"):
                step()
        assert not database.history()


def test_where_delta_is_gone_and_epsilon_is_plenty_the_refusal_is_still_about_the_budget(tmp_path: Path) -> None:
    write(tmp_path, a_world(5))
    described = policy(tmp_path, budget={"epsilon": 10**9, "delta": 1e-6, "query_delta": 1e-6})
    with sfumato.open(described) as database:
        codes = []
        for place in range(2):
            try:
                database.ask(f"SELECT city, SUM(age) FROM visits WHERE age > {place} GROUP BY city", epsilon=1)  # noqa: S608
            except EngineFailed:
                raise
            except Refusal as refusal:
                codes.append(refusal.code)
    assert {*codes} == {"budget_exhausted"}


def test_a_budget_for_exactly_m_questions_answers_exactly_m(tmp_path: Path) -> None:
    write(tmp_path, a_world(5))
    with sfumato.open(_pure(tmp_path, 1)) as database:
        for place in range(10):
            database.ask(f"SELECT COUNT(*) FROM visits WHERE age > {place}", epsilon="0.1")  # noqa: S608
        assert database.budget().spent == PrivacyLoss(Fraction(1))
        with pytest.raises(BudgetExhausted):
            database.ask("SELECT COUNT(*) FROM visits WHERE age > 11", epsilon="0.1")
        assert database.verify().entries >= 20


def test_analysts_spend_from_their_own_and_from_the_dataset(tmp_path: Path) -> None:
    write(tmp_path, a_world(5))
    described = _pure(tmp_path, 2, analysts={"research": {"epsilon": 1}, "press": {"epsilon": 2}})
    with sfumato.open(described, analyst="Research") as research, sfumato.open(described, analyst="press") as press:
        research.ask("SELECT COUNT(*) FROM visits", epsilon=1)
        with pytest.raises(BudgetExhausted, match=r"analysts\.research"):
            research.ask("SELECT COUNT(*) FROM patients", epsilon="0.1")
        press.ask("SELECT COUNT(*) FROM visits", epsilon=1)  # its own noise: accounts do not share answers
        with pytest.raises(BudgetExhausted, match="dataset"):
            press.ask("SELECT COUNT(*) FROM patients", epsilon="0.1")
    with pytest.raises(UnknownName, match="nobody"):
        sfumato.open(described, analyst="nobody")


def test_declared_keys_all_appear_and_others_need_delta(tmp_path: Path) -> None:
    write(tmp_path, World())
    with sfumato.open(_pure(tmp_path, 5)) as database:
        assert [row["dept"] for row in database.ask(COUNT, epsilon=1).rows()] == ["er", "icu", "surgery"]
        months = database.ask("SELECT date_trunc('month', day) AS m, COUNT(*) AS n FROM visits GROUP BY 1", epsilon=1)
        assert [row["m"] for row in months.rows()] == [date(2024, month, 1) for month in range(1, 13)]
        clock = database.ask("SELECT date_trunc('month', seen) AS m, COUNT(*) AS n FROM visits GROUP BY 1", epsilon=1)
        assert clock.columns == months.columns
        assert [row["m"] for row in clock.rows()] == [datetime(2024, month, 1) for month in range(1, 13)]
        with pytest.raises(KeysNeedDelta, match="city"):
            database.ask("SELECT city, COUNT(*) FROM visits GROUP BY city", epsilon=1)


def test_keys_of_one_public_table_come_together(clinic: sfumato.Database) -> None:
    release = clinic.ask(
        "SELECT s.name, s.floor, COUNT(*) AS n FROM visits JOIN staff s USING (dept) GROUP BY 1, 2", epsilon=1
    )
    assert [(row["name"], row["floor"]) for row in release.rows()] == [("ann", 1), ("bob", 2), ("eve", 1)]


def test_a_rare_key_stays_hidden_and_a_common_one_appears(tmp_path: Path) -> None:
    """δ = 1e-6 bounds the chance that the single person's key appears; the common one is missing with 1e-9 or less."""
    rows = [
        {**a_world(1).visits[0], "patient_id": person, "city": "rome" if person else "atlantis"}
        for person in range(400)
    ]
    write(tmp_path, World(visits=rows))
    with sfumato.open(policy(tmp_path)) as database:
        release = database.ask("SELECT city, COUNT(*) AS n FROM visits GROUP BY city", epsilon=2)
    assert [row["city"] for row in release.rows()] == ["rome"]


def test_public_tables_are_exact_and_free(clinic: sfumato.Database) -> None:
    release = clinic.ask("SELECT name, floor FROM staff WHERE dept = 'er' ORDER BY name DESC")
    assert release.rows() == [{"name": "bob", "floor": 2}, {"name": "ann", "floor": 1}]
    assert release.intervals()[0] == {"name": "bob", "floor": (2, 2)}
    assert clinic.ask("SELECT COUNT(*) AS n, AVG(floor) AS f FROM staff").rows() == [
        {"n": 3, "f": pytest.approx(4 / 3)}
    ]
    assert release.event is None
    assert release.loss.epsilon == 0
    assert clinic.history() == ()


def test_a_price_has_to_be_said(clinic: sfumato.Database) -> None:
    prices: tuple[object, ...] = (None, 0, -1, "x", float("nan"), float("inf"), [], True)
    for epsilon in prices:
        with refusing():
            clinic.ask(COUNT, epsilon=epsilon)
    for within in ({}, {"n": 0}, {"other": 5}, "n", {"n": 5, 3: 1}):
        with refusing():
            clinic.ask(COUNT, within=within)
    assert clinic.budget().spent.epsilon == 0


def test_a_closed_database_refuses(tmp_path: Path) -> None:
    write(tmp_path, a_world(5))
    database = sfumato.open(policy(tmp_path))
    database.close()
    database.close()
    for question in (lambda: database.ask(COUNT, epsilon=1), database.budget, database.history, database.verify):
        with pytest.raises(BadParameter, match="closed"):
            question()


def test_the_same_question_by_many_threads_is_one_charge(clinic: sfumato.Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        releases = list(pool.map(lambda _: clinic.ask(COUNT, epsilon="0.5"), range(16)))
    assert len({str(release.rows()) for release in releases}) == 1
    assert len(clinic.history()) == 1


def test_a_fork_has_its_own_coins_and_the_same_account(clinic: sfumato.Database) -> None:
    """Two processes that drew the same noise would let one subtract it: 20 noisy counts of scale 60 agree never."""
    clinic.budget()
    read, write_end = os.pipe()
    sql = "SELECT age, COUNT(*) AS n FROM visits GROUP BY age"
    child = os.fork()
    if child == 0:
        try:
            os.write(write_end, str(clinic.ask(sql, epsilon="0.05").rows()).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    os.waitpid(child, 0)
    with os.fdopen(read) as stream:
        theirs = stream.read()
    assert theirs
    assert len(clinic.history()) == 1
    assert str(clinic.ask(sql, epsilon="0.05").rows()) == theirs  # kept in the shared ledger
    assert str(clinic.ask(sql, epsilon="0.06").rows()) != theirs


def test_a_new_snapshot_is_a_new_version_under_the_same_account(tmp_path: Path) -> None:
    write(tmp_path, a_world(5))
    with sfumato.open(policy(tmp_path)) as database:
        first = database.ask(COUNT, epsilon=1)
    write(tmp_path, a_world(6))
    with sfumato.open(policy(tmp_path)) as database:
        assert database.ask(COUNT, epsilon=1).receipt == first.receipt
        database.refresh()
        second = database.ask(COUNT, epsilon=1)
        assert second.receipt.version != first.receipt.version
        assert len(database.history()) == 2


def test_a_policy_that_protects_less_needs_its_owners_word(tmp_path: Path) -> None:
    write(tmp_path, a_world(5))
    with sfumato.open(policy(tmp_path)) as database:
        database.ask(COUNT, epsilon=1)
    weaker = policy(tmp_path, visits={"rows_per_unit": 2})
    with pytest.raises(PolicyWeakened) as refused:
        sfumato.open(weaker)
    code = refused.value.remedy.rstrip(".").split()[-1]
    with sfumato.open(weaker, confirm=code) as database:
        assert len(database.history()) == 1


def test_bounding_can_be_measured(clinic: sfumato.Database) -> None:
    release = clinic.ask(COUNT, epsilon=1)
    assert any('"visits.removed"' in note for note in release.notes)
    measured = clinic.ask('SELECT COUNT(*) AS people, SUM(removed_rows) AS lost FROM "visits.removed"', epsilon=100)
    expected = [max(0, sum(row["patient_id"] == person for row in a_world(5, 30).visits) - 3) for person in range(30)]
    (row,) = measured.rows()
    assert abs(row["people"] - sum(lost > 0 for lost in expected)) <= 2  # beyond with probability e^-75
    assert abs(row["lost"] - sum(expected)) <= 30


def test_answers_leave_as_tables(clinic: sfumato.Database) -> None:
    release = clinic.ask("SELECT dept, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY dept", epsilon=50)
    arrow = release.to_arrow()
    assert arrow.column_names == ["dept", "n", "mean"]
    assert arrow.to_pylist() == release.rows()
    assert release.to_pandas()["n"].tolist() == [row["n"] for row in release.rows()]
    assert release.to_polars()["dept"].to_list() == ["er", "icu", "surgery"]
    assert "±" in repr(release)
    assert "<table>" in release._repr_html_()
    assert ["layer" in panel for panel in release.plot().to_dict()["concat"]] == [True, True]  # n and mean


def test_the_package_offers_the_contract() -> None:
    assert {"open", "Database", "Release", "Quote", "Refusal"} <= set(sfumato.__all__)
    with pytest.raises(AttributeError):
        sfumato.nothing  # type: ignore[attr-defined]  # noqa: B018
