"""The caps that a charge has to fit into, and the budgets that accounts are shown: functions of the ledger's state."""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from sfumato.accounting.event import Event
from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter
from sfumato.ledger.budget import Budget
from sfumato.ledger.cohorts import PayingCohorts
from sfumato.ledger.recorded_policy import DATASET
from sfumato.ledger.state import State, assigned
from sfumato.ledger.windows import unlimited_text, window_end
from sfumato.planning.budget_effect import BudgetEffect


def cohort_caps(state: State, name: str, paying: PayingCohorts | None = None) -> list[tuple[str, Filter]]:
    """Return the caps of an account that a charge has to fit into, each with its cohort; empty where all share it."""
    if name not in state.accounts:
        raise BadParameter(
            "This account does not exist.", "The policy names no such analyst.", "Use one that it names."
        )
    if paying is not None:
        state = assigned(state, paying.kept)
        return [(cohort, state.cohorts.get(cohort, {}).get(name, state.accounts[name])) for cohort in paying.names]
    own = [(cohort, caps[name]) for cohort, caps in state.cohorts.items() if name in caps]
    return [("", state.accounts[name]), *own]


def caps_of(state: State, account: str, paying: PayingCohorts | None = None) -> tuple[Filter, ...]:
    """Return the caps that a charge has to fit into: the account's own, and the dataset's, which comes last.

    Of several cohorts that pay, each at the one with the least left.
    """
    names = dict.fromkeys((account, DATASET))
    return tuple(_tightest([cap for _, cap in cohort_caps(state, name, paying)]) for name in names)


def _tightest(caps: list[Filter]) -> Filter:
    """Return the cap with the least left."""
    return caps[0] if len(caps) == 1 else min(caps, key=_room)


def account_budget(state: State, account: str, paying: PayingCohorts | None = None) -> Budget:
    """Return what an account can still spend: at the tighter of its cap and the dataset's.

    Of several cohorts, what the fullest has left, and what each has.
    """
    names = tuple(dict.fromkeys((account, DATASET)))
    caps = dict(zip(names, caps_of(state, account, paying), strict=True))
    tightest = min(names, key=lambda name: _room(caps[name]))
    found = _budget(state, tightest, account, caps[tightest], paying)
    if paying is None or len(paying.names) == 1 or not paying.shown:
        return found
    each = {name: account_budget(state, account, PayingCohorts(paying.kept, (name,))) for name in paying.names}
    return replace(found, cohorts=each)


def account_budgets(state: State) -> dict[str, Budget]:
    """Return every account at its own cap, of its fullest cohort; the dataset's under the empty name."""
    budgets = {name: _budget(state, name, name, caps_of(state, name)[0]) for name in state.accounts}
    if not state.cohorts:
        return budgets
    known = [PayingCohorts(state.kept, (cohort,)) for cohort in state.cohorts]
    return {
        name: replace(found, cohorts={paying.names[0]: account_budget(state, name, paying) for paying in known})
        for name, found in budgets.items()
    }


def effect_on(
    state: State, account: str, event: Event | None, granted: bool = False, paying: PayingCohorts | None = None
) -> BudgetEffect:
    """Return what a charge would do to an account's own cap; None is an answer that costs nothing.

    With a grant the own cap is left as it is.
    """
    own = caps_of(state, account, paying)[0]
    if granted and event is not None:
        return BudgetEffect(Fraction(0), min(Fraction(1), own.used), _spent(state, DATASET, paying, event))
    used = own.used if event is None else own.used_after(event)
    after = [
        loss for name in _bounds(state, account, account) if (loss := _spent(state, name, paying, event)) is not None
    ]
    spent = _smallest(after) if after else None
    if event is None:
        return BudgetEffect(Fraction(0), min(Fraction(1), own.used), spent)
    return BudgetEffect(None if used is None else used - own.used, used, spent)


def _room(cap: Filter) -> tuple[Fraction, Fraction]:
    return cap.epsilon * (1 - cap.used), cap.remaining.delta


def _budget(state: State, name: str, account: str, cap: Filter, paying: PayingCohorts | None = None) -> Budget:
    """Return the cap of a name, with a bound of what an account was answered about anybody."""
    window = state.windows.get(name)
    spent = (_spent(state, bound, paying) for bound in _bounds(state, account, name))
    left = [other.remaining for other in _different(state, name, paying)]
    return Budget(
        cap.total,
        _smallest(loss for loss in spent if loss is not None),
        PrivacyLoss(min(loss.epsilon for loss in left), min(loss.delta for loss in left)),
        min(Fraction(1), cap.used),
        None if window is None else window.every,
        None if window is None else window_end(window),
        promise_of(state),
    )


def promise_of(state: State) -> str:
    """Return the promise to people where the dataset's budget renews; empty where it holds for the lifetime."""
    window = state.windows.get(DATASET)
    return "" if window is None else unlimited_text(state.accounts[DATASET].total, window.every)


def _different(state: State, name: str, paying: PayingCohorts | None) -> list[Filter]:
    """Return the caps of an account's cohorts, each once."""
    return list(dict.fromkeys(cap for _, cap in cohort_caps(state, name, paying)))


def _spent(state: State, name: str, paying: PayingCohorts | None, event: Event | None = None) -> PrivacyLoss | None:
    """Return the largest bound of what some cohort lost, after an event if there is one; None if it has no bound.

    The cohort with the least left need not be the one with the largest: one may be full of Rényi losses.
    """
    caps = _different(state, name, paying)
    losses = [cap.spent if event is None else cap.spent_after(event) for cap in caps]
    known = [loss for loss in losses if loss is not None]
    if len(known) < len(losses):
        return None
    return PrivacyLoss(max(loss.epsilon for loss in known), max(loss.delta for loss in known))


def _bounds(state: State, account: str, name: str) -> tuple[str, ...]:
    """Return the accounts whose sums bound what an account was answered since the window of this name's cap began.

    Charges that a grant paid for are in the dataset's sums alone, so its bound is the one that holds. Where the
    dataset's own sums begin anew, they say nothing of what an account was charged before.
    """
    if account in state.granted:
        return (DATASET,)  # proofs/approvals.md, 7
    return (name,) if DATASET in state.windows else (name, DATASET)  # proofs/odometer.md, 5


def _smallest(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    return min(losses, key=lambda loss: loss.epsilon)
