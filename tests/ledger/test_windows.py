"""Caps that renew: inside the lifetime cap, or with the weaker promise where there is none; and clocks that go back."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.accounts import policy_in, pure, request_for, require_read_back

from sfumato.errors import BadPolicy, BudgetExhausted, LedgerUnavailable, PolicyWeakened
from sfumato.ledger import state as ledger_state
from sfumato.ledger import transaction
from sfumato.ledger.accounts import open_accounts
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import accept_clock, open_ledger
from sfumato.ledger.verified_windows import verified_window_start as second_window
from sfumato.ledger.windows import BudgetWindow, instant, window_end, window_start
from sfumato.policy.policy import Period, Policy

SetClock = Callable[[str], None]
FIRST = datetime(1970, 1, 1, tzinfo=UTC)
UNLIMITED = {"every": "month", "lifetime": "unlimited"}


def _microseconds(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - FIRST) // timedelta(microseconds=1)


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Return how to set the clock of this machine."""

    def at(text: str) -> None:
        for module in (transaction, ledger_state):
            monkeypatch.setattr(module, "time_ns", lambda: _microseconds(text) * 1000)

    at("2030-03-05T12:00")
    return at


def _ask(ledger: Ledger, policy: Policy, question: str, epsilon: str = "0.5", account: str = "") -> None:
    with ledger.charge(request_for(policy, question, pure(epsilon), account=account)) as charge:
        charge.settle("answered")


def _policy(folder: Path, epsilon: object = 2, budget: dict[str, Any] | None = None, **more: Any) -> Policy:
    policy = policy_in(folder, epsilon, **more)
    if budget:
        every = Period(budget["every"])
        return replace(policy, budget=replace(policy.budget, every=every, lifetime=budget["lifetime"]))
    return policy


@pytest.mark.parametrize("every", Period)
def test_windows_are_those_of_the_calendar_and_both_readers_agree(every: Period) -> None:
    for hours in range(0, 24 * 800, 7):
        time = _microseconds("2027-12-15T03:00") + hours * 3_600_000_000 + 17
        start = window_start(every, time)
        end = window_end(BudgetWindow(every, start))
        assert start == second_window(every, time)
        assert instant(start) <= instant(time) < end
        assert window_start(every, (end - FIRST) // timedelta(microseconds=1) - 1) == start
        begins = instant(start)
        assert (begins.hour, begins.minute, begins.second, begins.microsecond) == (0, 0, 0, 0)
        match every:
            case Period.WEEK:
                assert begins.weekday() == 0
            case Period.MONTH | Period.QUARTER | Period.YEAR:
                assert begins.day == 1
                assert every is Period.MONTH or begins.month in (1, 4, 7, 10)[: 4 if every is Period.QUARTER else 1]


def test_the_cap_of_an_analyst_renews_and_the_lifetime_cap_holds(tmp_path: Path, set_clock: SetClock) -> None:
    policy = _policy(tmp_path, analysts={"research": {"epsilon": "0.5", "every": "month"}, "other": {"epsilon": 1}})
    ledger = open_ledger(policy)
    for asked, month in enumerate(("03-05", "04-01", "05-31", "07-02"), 1):
        set_clock(f"2030-{month}T00:00")
        shown = ledger.budget("research")
        assert shown.every is Period.MONTH
        assert shown.used == 0  # shown before anybody asks in this month
        _ask(ledger, policy, f"q{asked}", account="research")
        if asked < 4:
            with pytest.raises(BudgetExhausted, match="ask again from 2030-"):
                _ask(ledger, policy, "one more", "0.01", account="research")
        assert ledger.budget("research").used == 1
        assert ledger.account().pure == Fraction(asked, 2)
        assert ledger.verify().spent.epsilon == Fraction(asked, 2)
    set_clock("2030-08-01T00:00")
    with pytest.raises(BudgetExhausted, match="the dataset has 0 %"):  # four months have used the lifetime
        _ask(ledger, policy, "too much", "0.01", account="research")
    with pytest.raises(BudgetExhausted):
        _ask(ledger, policy, "nor others", "0.01", account="other")
    ledger.close()


def test_a_clock_that_goes_back_opens_no_window(tmp_path: Path, set_clock: SetClock) -> None:
    policy = _policy(tmp_path, 100, analysts={"research": {"epsilon": "0.5", "every": "day"}})
    ledger = open_ledger(policy)
    _ask(ledger, policy, "today", account="research")
    set_clock("2030-03-06T00:00")
    _ask(ledger, policy, "tomorrow", account="research")
    set_clock("2030-03-05T00:00")
    with pytest.raises(LedgerUnavailable, match="clock"):
        _ask(ledger, policy, "yesterday", account="research")
    assert ledger.budget("research").used == 1
    assert accept_clock(policy) == timedelta(days=1)  # the owner says that it is right
    for time in ("2030-03-05T00:00", "2030-03-05T23:59", "2030-03-06T23:59"):
        set_clock(time)
        with pytest.raises(BudgetExhausted):  # still the window of the day that came first
            _ask(ledger, policy, f"again at {time}", "0.01", account="research")
    set_clock("2030-03-07T00:00")
    _ask(ledger, policy, "a later day", account="research")
    ledger.verify()
    ledger.close()


def test_sums_of_windows_are_read_back(tmp_path: Path, set_clock: SetClock) -> None:
    """Through state rows, reopening and the second reader, in several months."""
    policy = _policy(tmp_path, 10**6, analysts={"research": {"epsilon": 300, "every": "quarter"}})
    ledger = open_ledger(policy)
    for place in range(20):
        if place == 12:
            set_clock("2030-04-01T00:00")
        _ask(ledger, policy, f"q{place}", "1", account="research")
    assert ledger.account("research").pure == 8
    require_read_back(ledger)
    ledger.verify()
    ledger.close()
    with open_accounts(policy) as accounts:
        assert accounts.budgets()["research"].every == "quarter"


def test_a_budget_without_a_lifetime_cap_says_so(tmp_path: Path, set_clock: SetClock) -> None:
    policy = _policy(tmp_path, 1, UNLIMITED)
    ledger = open_ledger(policy)
    for month in range(3, 9):
        set_clock(f"2030-{month:02}-20T00:00")
        _ask(ledger, policy, f"q{month}", "1")
        with pytest.raises(BudgetExhausted, match="in this month"):
            _ask(ledger, policy, "more", "0.01")
    shown = ledger.budget()
    assert shown.promise == "At most ε = 1 per month; what all months together reveal has no bound."
    assert shown.promise in str(shown)
    assert "next on 2030-09-01" in str(shown)
    ledger.verify()
    ledger.close()


def test_a_policy_cannot_promise_a_lifetime_over_windows_that_are_gone(tmp_path: Path, set_clock: SetClock) -> None:
    policy = _policy(tmp_path, 1)
    with_windows = _policy(tmp_path, 1, UNLIMITED)
    ledger = open_ledger(policy)
    _ask(ledger, policy, "before", "1")
    ledger.close()
    ledger = open_ledger(with_windows)  # what was spent counts in the first window
    with pytest.raises(BudgetExhausted):
        _ask(ledger, with_windows, "more", "0.01")
    set_clock("2030-04-01T00:00")
    _ask(ledger, with_windows, "in April", "1")
    ledger.close()
    for other in (policy, _policy(tmp_path, 1, {"every": "year", "lifetime": "unlimited"})):
        with pytest.raises(PolicyWeakened, match="window"):
            open_ledger(other)


def test_a_change_of_the_policy_renews_no_cap(tmp_path: Path, set_clock: SetClock) -> None:
    """Whatever the period becomes, what was charged in the open window stays."""
    periods: list[str | None] = ["month", "day", "year", None, "week", "day"]
    policies = [
        _policy(tmp_path, 10 + place, analysts={"research": {"epsilon": 1, **({"every": every} if every else {})}})
        for place, every in enumerate(periods)
    ]
    ledger = open_ledger(policies[0])
    _ask(ledger, policies[0], "first", "1", account="research")
    for policy in policies[1:]:
        ledger.close()
        ledger = open_ledger(policy)
        with pytest.raises(BudgetExhausted):
            _ask(ledger, policy, "more", "0.01", account="research")
    ledger.verify()
    ledger.close()


@pytest.mark.parametrize("budget", [{"every": "month"}, {"lifetime": "unlimited"}])
def test_a_budget_renews_only_with_both_words(tmp_path: Path, budget: dict[str, str]) -> None:
    with pytest.raises(BadPolicy, match="weaker promise"):
        policy_in(tmp_path, budget={"epsilon": 1, "delta": 0, **budget})


def test_a_role_gives_its_window_with_its_epsilon(tmp_path: Path) -> None:
    roles = {
        "daily": {"epsilon": 1, "every": "day"},
        "monthly": {"epsilon": 1, "every": "month"},
        "once": {"epsilon": 1},
        "small": {"epsilon": "0.1", "every": "day"},
    }
    analysts = {
        "a": {"roles": ["daily"]},
        "b": {"roles": ["daily", "monthly"]},
        "c": {"roles": ["daily", "once"]},
        "d": {"roles": ["small", "once"]},
        "e": {"roles": ["daily"], "epsilon": 2},
        "f": {"roles": ["once"], "every": "week"},
    }
    found = {one.name: one.every for one in policy_in(tmp_path, analysts=analysts, roles=roles).analysts}
    assert found == {"a": "day", "b": "month", "c": None, "d": None, "e": None, "f": "week"}
