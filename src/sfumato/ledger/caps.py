"""The caps that a charge has to fit into, and the budgets that accounts are shown: functions of the ledger's state."""

from collections.abc import Iterable
from fractions import Fraction

from sfumato.accounting.event import Event
from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter
from sfumato.ledger.budget import Budget
from sfumato.ledger.recorded_policy import DATASET
from sfumato.ledger.state import State
from sfumato.ledger.windows import unlimited_text, window_end
from sfumato.planning.budget_effect import BudgetEffect


def caps_of(state: State, account: str) -> tuple[Filter, ...]:
    """Return the caps that a charge has to fit into: the account's own, and the dataset's, which comes last."""
    return tuple(_cap(state, name) for name in dict.fromkeys((account, DATASET)))


def account_budget(state: State, account: str) -> Budget:
    """Return what an account can still spend: at the tighter of its cap and the dataset's."""
    names = tuple(dict.fromkeys((account, DATASET)))
    tightest = min(names, key=lambda name: _room(_cap(state, name)))
    return _budget(state, tightest, account)


def account_budgets(state: State) -> dict[str, Budget]:
    """Return every account at its own cap; the dataset's under the empty name."""
    return {name: _budget(state, name, name) for name in state.accounts}


def effect_on(state: State, account: str, event: Event | None, granted: bool = False) -> BudgetEffect:
    """Return what a charge would do to an account's own cap; None is an answer that costs nothing.

    With a grant the own cap is left as it is.
    """
    own, dataset = caps_of(state, account)[0], state.accounts[DATASET]
    if granted and event is not None:
        return BudgetEffect(Fraction(0), min(Fraction(1), own.used), dataset.spent_after(event))
    bounds = _bounds(state, account, own)
    if event is None:
        return BudgetEffect(Fraction(0), min(Fraction(1), own.used), _smallest(bound.spent for bound in bounds))
    used = own.used_after(event)
    after = [loss for bound in bounds if (loss := bound.spent_after(event)) is not None]
    return BudgetEffect(None if used is None else used - own.used, used, _smallest(after) if after else None)


def _cap(state: State, name: str) -> Filter:
    if name not in state.accounts:
        raise BadParameter(
            "This account does not exist.", "The policy names no such analyst.", "Use one that it names."
        )
    return state.accounts[name]


def _room(cap: Filter) -> tuple[Fraction, Fraction]:
    return cap.epsilon * (1 - cap.used), cap.remaining.delta


def _budget(state: State, name: str, account: str) -> Budget:
    """Return the cap of a name, with a bound of what an account was answered."""
    cap, window = state.accounts[name], state.windows.get(name)
    spent = _smallest(bound.spent for bound in _bounds(state, account, cap))
    return Budget(
        cap.total,
        spent,
        cap.remaining,
        min(Fraction(1), cap.used),
        None if window is None else window.every,
        None if window is None else window_end(window),
        promise_of(state),
    )


def promise_of(state: State) -> str:
    """Return the promise to people where the dataset's budget renews; empty where it holds for the lifetime."""
    window = state.windows.get(DATASET)
    return "" if window is None else unlimited_text(state.accounts[DATASET].total, window.every)


def _bounds(state: State, account: str, cap: Filter) -> tuple[Filter, ...]:
    """Return the caps whose sums bound what an account was answered since the window of `cap` began.

    Charges that a grant paid for are in the dataset's sums alone, so its bound is the one that holds. Where the
    dataset's own sums begin anew, they say nothing of what an account was charged before.
    """
    dataset = state.accounts[DATASET]
    if account in state.granted:
        return (dataset,)  # proofs/approvals.md, 7
    return (cap,) if DATASET in state.windows else (cap, dataset)  # proofs/odometer.md, 5


def _smallest(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    return min(losses, key=lambda loss: loss.epsilon)
