"""Prices with very many digits: they are refused, and where they were charged before, the ledger goes on."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from tests.ledger.accounts import policy_in, pure, request_for

from sfumato.accounting.event import Event
from sfumato.accounting.filter import MAX_DENOMINATOR, Filter
from sfumato.errors import LedgerUnavailable
from sfumato.ledger import state
from sfumato.ledger.chain import STATE_EVERY
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import open_ledger
from sfumato.policy.policy import Policy

HOSTILE = [Fraction(1, 10**1982 - 10**place - 1) for place in range(3)]
"""Three of 1982 digits have a sum that Python does not print."""


def _ask(ledger: Ledger, policy: Policy, question: str, event: Event) -> None:
    with ledger.charge(request_for(policy, question, event)) as charge:
        charge.settle("answered")


def test_almost_free_questions_do_not_stop_a_ledger(tmp_path: Path) -> None:
    policy = policy_in(tmp_path, "2")
    ledger = open_ledger(policy)
    for place, price in enumerate(HOSTILE):
        _ask(ledger, policy, f"hostile {place}", pure(price))
    with ThreadPoolExecutor(32) as crowd:  # past the first row that writes the sums down
        questions = [f"honest {place}" for place in range(STATE_EVERY // 2)]
        list(crowd.map(lambda question: _ask(ledger, policy, question, pure("1/1000")), questions))
    assert ledger.verify().entries > STATE_EVERY
    ledger.close()
    again = open_ledger(policy)
    _ask(again, policy, "after it was opened again", pure("1/2"))
    assert again.verify().spent == again.budget().spent
    assert again.budget().spent.epsilon > 1
    again.close()


def test_the_second_reader_adds_as_the_first_does_where_sums_are_rounded(tmp_path: Path) -> None:
    policy = policy_in(tmp_path, "2")
    ledger = open_ledger(policy)
    prices = [Fraction(1, 10**40 - 2 * place - 1) for place in range(120)]  # longer than any sum, all together
    with ThreadPoolExecutor(32) as crowd:
        list(crowd.map(lambda price: _ask(ledger, policy, str(price), pure(price)), [*prices, Fraction(1, 1000)]))
    total = ledger.budget().spent.epsilon
    assert sum(prices) + Fraction(1, 1000) < total
    assert total.denominator <= MAX_DENOMINATOR
    assert ledger.verify().spent.epsilon == total
    ledger.close()


@pytest.mark.parametrize("error", [ValueError, OverflowError, RecursionError, MemoryError, AssertionError])
def test_nothing_but_a_refusal_leaves_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def failing(*_: object) -> Filter:
        raise error("/secret/path")

    policy = policy_in(tmp_path)
    ledger = open_ledger(policy)
    asked: list[Callable[[], object]] = [
        lambda: _ask(ledger, policy, "q", pure("0.1")),
        ledger.budget,
        lambda: ledger.count_affordable(pure("0.1")),
        ledger.history,
    ]
    with monkeypatch.context() as broken:
        broken.setattr(Filter, "charge", failing)
        broken.setattr(Filter, "remaining", property(failing))
        broken.setattr("sfumato.ledger.ledger.caught_up", failing)
        broken.setattr("sfumato.ledger.ledger.most_queries", failing)
        for ask in asked:
            with pytest.raises(LedgerUnavailable) as refused:
                ask()
            assert "secret" not in str(refused.value)
    assert not ledger.history()
    _ask(ledger, policy, "q", pure("0.1"))  # and nothing was harmed
    assert ledger.verify().spent.epsilon == Fraction(1, 10)
    ledger.close()


def test_a_row_that_no_arithmetic_reads_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = open_ledger(policy_in(tmp_path))
    _ask(ledger, policy_in(tmp_path), "q", pure("0.1"))
    ledger.close()

    def failing(_: object) -> Event:
        raise ZeroDivisionError

    monkeypatch.setattr(state, "_read_event", failing)
    with pytest.raises(Exception, match="cannot have been written") as refused:
        open_ledger(policy_in(tmp_path))
    assert refused.value.code == "ledger_damaged"  # type: ignore[attr-defined]
