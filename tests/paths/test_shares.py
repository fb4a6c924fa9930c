"""A share of the budget, as the ledger counts it: as many answers as shares fit, whatever was spent before."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.paths.worlds import a_world, policy, write

import sfumato
from sfumato.errors import BadParameter, BudgetExhausted

SQL = "SELECT COUNT(*) AS n FROM visits WHERE score > {}"
BUDGETS = [{"epsilon": 3, "delta": 1e-6}, {"epsilon": "1/3", "delta": 0}]


def opened(folder: Path, **more: Any) -> sfumato.Database:
    write(folder, a_world(1))
    return sfumato.open(policy(folder, **more))


def answered(database: sfumato.Database, share: object, most: int) -> int:
    """Ask different questions at this share until one is refused; return how many were answered."""
    for place in range(most):
        try:
            database.ask(SQL.format(place), share=share)
        except BudgetExhausted:
            return place
    return most


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_hundred_shares_of_one_percent_are_answered_and_no_more(tmp_path: Path, budget: dict[str, object]) -> None:
    with opened(tmp_path, budget=budget) as database:
        assert answered(database, "1%", 102) == 100
        now = database.budget()
        assert Fraction(999999, 10**6) < now.used <= 1
        assert now.total.epsilon * now.used <= now.spent.epsilon <= now.total.epsilon
        database.verify()


@pytest.mark.parametrize(("share", "times"), [("1/3", 3), ("100 %", 1)])
def test_large_shares_are_as_many_as_fit(tmp_path: Path, share: object, times: int) -> None:
    with opened(tmp_path, budget=BUDGETS[0]) as database:
        assert answered(database, share, times + 2) == times


def test_an_analysts_share_is_one_of_their_own_budget(tmp_path: Path) -> None:
    with (
        opened(tmp_path, budget=BUDGETS[0], analysts={"ada": {"epsilon": 1}}) as database,
        database.as_analyst("ada") as ada,
    ):
        ada.ask(SQL.format(-1), share="50%")
        assert ada.budget().spent.epsilon == Fraction(1, 2)
        assert answered(ada, "10%", 7) == 5
        assert database.budget().used < Fraction(1, 2)


def test_what_was_spent_by_epsilon_counts_as_the_ledger_counts_it(tmp_path: Path) -> None:
    with opened(tmp_path, budget=BUDGETS[0]) as database:
        database.ask(SQL.format(-1), epsilon="1.5")  # half of the pure losses, and more of the Rényi losses
        assert database.budget().used == Fraction(1, 2)
        assert answered(database, "10%", 7) == 5


def test_shares_of_all_sizes_add_up(tmp_path: Path) -> None:
    with opened(tmp_path, budget=BUDGETS[0]) as database:
        for place, share in enumerate(["2%", "30%", "5%", "0.5%", "40%", "2.5%", "20%"]):
            before = database.budget().used
            database.ask(SQL.format(place), share=share)
            rises = database.budget().used - before
            assert Fraction(999, 1000) * (part := Fraction(share[:-1]) / 100) < rises <= part
        with pytest.raises(BudgetExhausted, match="This question costs"):
            database.ask(SQL.format(99), share="1%")


def test_a_refused_share_says_which_one_would_fit(tmp_path: Path) -> None:
    with opened(tmp_path, budget=BUDGETS[0]) as database:
        database.ask(SQL.format(1), share="90%")
        with pytest.raises(BudgetExhausted, match="buys this question at share='10%'"):
            database.ask(SQL.format(2), share="20%")
        database.ask(SQL.format(2), share="10%")


def test_the_same_share_again_is_free_also_when_the_account_has_changed(tmp_path: Path) -> None:
    with opened(tmp_path, budget=BUDGETS[0]) as database:
        small, large = database.ask(SQL.format(1), share="1%"), database.ask(SQL.format(2), share="30%")
        database.ask(SQL.format(3), epsilon=1)
        spent = database.budget().spent
        assert database.ask(SQL.format(1), share="1/100").receipt == small.receipt
        assert database.ask(SQL.format(2), share="30%").receipt == large.receipt
        assert database.budget().spent == spent


@pytest.mark.parametrize("share", ["1%", "60%"])
def test_the_same_share_again_is_free_where_the_other_way_to_spend_it_would_suit_now(
    tmp_path: Path, share: str
) -> None:
    with opened(tmp_path, budget=BUDGETS[0]) as database:
        first = database.ask(SQL.format(1), share=share, key="once")
        database.ask(SQL.format(2), epsilon="1.1")
        assert database.ask(SQL.format(1), share=share).receipt == first.receipt
        assert database.ask(SQL.format(1), share=share, key="once").receipt == first.receipt


def test_an_answer_by_share_is_reopened_also_under_another_budget(tmp_path: Path) -> None:
    with opened(tmp_path, budget=BUDGETS[0]) as database:
        answers = [database.ask(SQL.format(place), share=share) for place, share in enumerate(["2%", "30%"])]
    words = policy(tmp_path, budget={"epsilon": 5, "delta": 1e-6})
    with sfumato.open(words) as database:
        for answer in answers:
            assert database.reopen(answer.receipt.id).intervals() == answer.intervals()


def test_explain_says_what_would_be_charged_and_is_the_same_each_time(tmp_path: Path) -> None:
    with opened(tmp_path, budget=BUDGETS[0]) as database:
        quote = database.explain(SQL.format(1), share="2%")
        assert str(quote) == str(database.explain(SQL.format(1), share="0.02"))
        assert "share: 2 % of the budget" in str(quote)
        assert quote.share == quote.used_after
        assert quote.share is not None
        assert quote.share <= Fraction(2, 100)
        by_epsilon = database.explain(SQL.format(1), epsilon="0.06")
        margin, plain = quote.margins["n"], by_epsilon.margins["n"]
        assert margin is not None
        assert plain is not None
        assert 1.8 * margin < plain  # the variance is a quarter
        release = database.ask(SQL.format(1), share="2%")
        assert release.loss == quote.loss


def test_a_share_is_never_worse_than_that_share_of_epsilon(tmp_path: Path) -> None:
    with opened(tmp_path, budget=BUDGETS[0]) as database:
        for percent in (1, 5, 8, 10, 30, 100):
            share = database.explain(SQL.format(1), share=f"{percent}%").margins["n"]
            plain = database.explain(SQL.format(1), epsilon=Fraction(3 * percent, 100)).margins["n"]
            assert share is not None
            assert plain is not None
            assert share <= plain


def test_two_prices_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        with pytest.raises(BadParameter, match="Both epsilon and share"):
            database.explain(SQL.format(1), share="1%", epsilon=1)
        with pytest.raises(BadParameter, match="Both within and share"):
            database.explain(SQL.format(1), share="1%", within={"n": 5})
        with pytest.raises(BadParameter, match="share = '101%' is not a share"):
            database.explain(SQL.format(1), share="101%")
