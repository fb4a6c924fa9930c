"""Windows in which a cap holds: of UTC, beginning at fixed instants, and never opened by a clock that goes back.

Proof: proofs/windows.md
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss, round_up
from sfumato.policy.policy import Period, Policy

_FIRST_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MONTHS_PER_WINDOW = {Period.MONTH: 1, Period.QUARTER: 3, Period.YEAR: 12}


@dataclass(frozen=True, slots=True)
class BudgetWindow:
    """The window of an account whose cap renews: what it was charged since then counts."""

    every: Period
    since: int
    """Microseconds since 1970. It never falls."""


Windows = Mapping[str, BudgetWindow]
"""By account, the windows of those whose cap renews."""


def instant(microseconds: int) -> datetime:
    """Return a time of the ledger as people read it."""
    return _FIRST_INSTANT + timedelta(microseconds=microseconds)


def window_start(every: Period, microseconds: int) -> int:
    """Return when the window began that contains a time of the ledger.

    >>> instant(window_start(Period.QUARTER, 1_800_000_000_000_000)).isoformat()
    '2027-01-01T00:00:00+00:00'
    """
    time = instant(microseconds)
    day = time.replace(hour=0, minute=0, second=0, microsecond=0)
    if every is Period.WEEK:
        day -= timedelta(days=day.weekday())
    elif every is not Period.DAY:
        months = _MONTHS_PER_WINDOW[every]
        day = day.replace(month=(day.month - 1) // months * months + 1, day=1)
    return (day - _FIRST_INSTANT) // _MICROSECOND


def window_end(window: BudgetWindow) -> datetime:
    """Return when the window after this one begins."""
    start = instant(window.since)
    if window.every in (Period.DAY, Period.WEEK):
        return start + timedelta(days=1 if window.every is Period.DAY else 7)
    months = start.month - 1 + _MONTHS_PER_WINDOW[window.every]
    return start.replace(year=start.year + months // 12, month=months % 12 + 1)


def due(windows: Windows, names: Iterable[str], microseconds: int) -> dict[str, BudgetWindow]:
    """Return the new windows of the accounts whose window has ended by this time.

    A window begins after the one before it, so a time that went back opens none.
    """
    starts: dict[Period, int] = {}
    found = {}
    for name in names:
        if (window := windows.get(name)) is None:
            continue
        if window.every not in starts:
            starts[window.every] = window_start(window.every, microseconds)
        if starts[window.every] > window.since:
            found[name] = replace(window, since=starts[window.every])
    return found


def emptied(cap: Filter) -> Filter:
    """Return a cap at the beginning of a window: nothing is carried over."""
    return replace(cap.untouched, neighbours=cap.neighbours)


def under_policy(
    windows: Windows, periods: Mapping[str, Period], names: Iterable[str], time: int
) -> dict[str, BudgetWindow]:
    """Return the windows under a policy: sums stay in the window that is open, and it never begins earlier."""
    kept = {name: window for name, window in windows.items() if name not in names}
    for name, every in periods.items():
        before = windows[name].since if name in windows else 0
        kept[name] = BudgetWindow(every, max(before, window_start(every, time)))
    return kept


def windows_json(windows: Windows) -> dict[str, list[object]]:
    """Return windows as a state row holds them."""
    return {name: [window.every.value, window.since] for name, window in windows.items()}


def windows_from_json(data: Mapping[str, list[object]]) -> dict[str, BudgetWindow]:
    """Read the windows of a state row; ValueError or TypeError where it holds none."""
    found = {}
    for name, (every, since) in data.items():
        if type(since) is not int:
            raise ValueError("not the beginning of a window")
        found[name] = BudgetWindow(Period(str(every)), since)
    return found


def budget_notes(policy: Policy) -> tuple[str, ...]:
    """Return what every answer and quote says of a budget that renews."""
    if policy.budget.every is None:
        return ()
    return (unlimited_text(PrivacyLoss(policy.budget.epsilon, policy.budget.delta), policy.budget.every),)


def unlimited_text(total: PrivacyLoss, every: Period) -> str:
    """Return the promise of a budget that renews, which is weaker than that of a budget for the ledger's lifetime."""
    delta = f", δ = {round_up(total.delta)}" if total.delta else ""
    return f"At most ε = {round_up(total.epsilon)}{delta} per {every}; what all {every}s together reveal has no bound."
