"""Opening a ledger: the account is created where there is none, and the policy in force is recorded."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from time import time_ns

from sfumato.errors import MixedNeighbours, OtherLedger, PolicyChanged, PolicyWeakened
from sfumato.ledger.chain import GENESIS, Row, RowKind, with_chain_hash
from sfumato.ledger.damage import damaged
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.postgres_store import PostgresStore, create_table, has_table
from sfumato.ledger.recorded_policy import DATASET, RecordedPolicy, policy_text, recorded
from sfumato.ledger.sqlite_store import SqliteStore, create_file
from sfumato.ledger.state import refuses_window
from sfumato.ledger.store import Store
from sfumato.ledger.transaction import LedgerTransaction
from sfumato.policy.canonical import policy_hash
from sfumato.policy.policy import Location, Policy


def open_ledger(policy: Policy, confirm: str | None = None, expected: str = "", *, is_recorded: bool = False) -> Ledger:
    """Open the ledger that a policy names, or create it.

    A changed budget or another analyst is recorded. Where the tables changed after something was spent, the owner must
    say so by giving the new policy's hash as `confirm`; that is recorded too. A ledger of a dataset with another name
    is refused in the same way, a changed neighbour relation always, and so is another ledger than the `expected` one,
    which paid for what was answered before. With `is_recorded` nothing is recorded: a policy that is not in force is
    refused.
    """
    first = with_chain_hash(GENESIS, _row(recorded(policy, {}, False))._replace(sequence=1, time=time_ns() // 1000))
    ledger = Ledger(_store_of(policy.ledger, first), policy.budget.charges)
    try:
        _require_identity(ledger, expected)
        ledger.record(lambda transaction: _record(transaction, policy, confirm, is_recorded))
    except BaseException:
        ledger.close()
        raise
    return ledger


def accept_clock(policy: Policy) -> timedelta:
    """Let entries follow in the ledger of a policy although the clock is behind the last one, and put that on record.

    It is for the owner alone, and records nothing of the policy: that may have changed meanwhile. Returns by how much
    the clock was behind; zero means that nothing was recorded.
    """
    place = policy.ledger
    if place.path is not None and not place.path.exists():
        return timedelta(0)
    ledger = Ledger(partial(PostgresStore, place.target) if place.path is None else partial(SqliteStore, place.path))
    behind: list[int] = []

    def accept(transaction: LedgerTransaction) -> None:
        _require_same_dataset(transaction.name(), policy)
        behind.append(transaction.accept_clock())

    try:
        ledger.record(accept)
    finally:
        ledger.close()
    return timedelta(microseconds=behind[0])


def existing_ledger(policy: Policy) -> Ledger | None:
    """Open the ledger of a policy to read it, and record nothing; None where there is none yet."""
    place = policy.ledger
    if place.path is None:
        return Ledger(partial(PostgresStore, place.target)) if has_table(place.target) else None
    return Ledger(partial(SqliteStore, place.path)) if place.path.exists() else None


def pending(ledger: Ledger, policy: Policy) -> RecordedPolicy | None:
    """Return what would be recorded if a database were opened with this policy; None where nothing would be.

    A policy that would be refused then is refused here.
    """
    found: list[RecordedPolicy | None] = []
    ledger.record(lambda transaction: found.append(_check(transaction, policy, None)))
    return found[0]


def check_ledger(policy: Policy, confirm: str | None = None) -> None:
    """Refuse what `open_ledger` would refuse of a ledger that is there, and change nothing."""
    place = policy.ledger.path
    if place is not None and place.exists():
        ledger = Ledger(partial(SqliteStore, place))
        try:
            ledger.record(lambda transaction: _check(transaction, policy, confirm))
        finally:
            ledger.close()


def _require_identity(ledger: Ledger, expected: str) -> None:
    if expected and ledger.identity() != expected:
        raise damaged(
            "It is not the one that paid for answers about this snapshot of the data.",
            "Nothing was released. Restore the ledger and its anchor from a backup. A spent budget cannot start "
            "again at zero.",
        )


def _store_of(place: Location, first: Row) -> Callable[[], Store]:
    """Return how to open the store, after it was created where there was none."""
    if place.path is None:
        create_table(place.target, first)
        return partial(PostgresStore, place.target)
    if not place.path.exists():
        create_file(place.path, first)
    return partial(SqliteStore, place.path)


def policy_in_force(ledger: Ledger) -> str:
    """Return the hash of the policy that was recorded last."""
    found: list[str] = []
    ledger.record(lambda transaction: found.append(transaction.state.policy))
    return found[0]


def _record(transaction: LedgerTransaction, policy: Policy, confirm: str | None, is_recorded: bool) -> None:
    if is_recorded and transaction.state.policy != policy_hash(policy):
        raise PolicyChanged(
            "This policy is not in force.",
            "The ledger has recorded another one, and only the owner can record this one.",
            "Nothing was changed. Run: sfumato check POLICY",
        )
    changed = _check(transaction, policy, confirm)
    if changed is not None:
        transaction.add(_row(changed))


def _check(transaction: LedgerTransaction, policy: Policy, confirm: str | None) -> RecordedPolicy | None:
    """Return what is to be recorded of this policy, or None if it is in force; refuse one that does not continue."""
    state = transaction.state
    if state.policy == policy_hash(policy):
        return None
    confirmed = confirm == policy_hash(policy)
    if not confirmed:
        _require_same_dataset(transaction.name(), policy)
    changed = recorded(policy, state.accounts, confirmed)
    if changed.neighbours != state.neighbours:
        raise MixedNeighbours(
            f"neighbours = '{changed.neighbours}' does not continue this ledger.",
            f"Its losses hold under '{state.neighbours}', and losses under two relations do not add up.",
            f"Write neighbours = '{state.neighbours}'.",
        )
    if refuses_window(state, changed):
        raise PolicyWeakened(
            "The window of the budget has changed after something was spent.",
            "Earlier windows are not in the sums, so the new policy could not keep what it promises about them.",
            f'Nothing was changed. Write every = "{state.windows[DATASET].every}" and lifetime = "unlimited" in '
            "[budget], or start another ledger, whose promise begins at its first entry.",
        )
    if state.spent and changed.tables != state.tables and not confirmed:
        raise PolicyWeakened(
            "The tables of this policy are not those under which the budget was spent.",
            "Another unit, other bounds or other keys may protect less than was promised to the people in the data.",
            f"Nothing was changed. If the owner means it, {_confirming(changed.hash)}.",
        )
    return changed


def _require_same_dataset(name: str, policy: Policy) -> None:
    if name != policy.name:
        raise OtherLedger(
            f"The ledger of this policy belongs to '{name}', not to '{policy.name}'.",
            (
                "Two datasets in one ledger would spend one budget, and one policy would replace the limits of the "
                "other."
            ),
            "Nothing was changed. Name another file, database or schema in `ledger`. If the dataset was renamed, "
            f"{_confirming(policy_hash(policy))}.",
        )


def _confirming(hash: str) -> str:
    """Return how an owner confirms a policy; the path of it is theirs to fill in."""
    return (
        "confirm the new policy (in Python, by `confirm` of sfumato.open): "
        f"sfumato check POLICY --confirm {hash}"  # the hash comes last, to be copied
    )


def _row(policy: RecordedPolicy) -> Row:
    return Row(0, RowKind.POLICY.value, 0, policy=policy.hash, content=policy_text(policy))


def require_ledger(policy: Policy, was_paid_for: Callable[[Policy], bool]) -> None:
    """Refuse to begin anew where a snapshot says that there was a ledger."""
    place = policy.ledger.path
    # looked at twice: who opens it for the first time elsewhere makes the ledger, and then the snapshot
    if place is not None and not place.exists() and was_paid_for(policy) and not place.exists():
        raise damaged(
            "Its file is gone, and the snapshot of the data that it paid for is still there.",
            "Restore the ledger and its anchor from a backup. A spent budget cannot start again at zero. If no "
            "answer was ever given, remove the files beside it whose names continue with .copy, and open again.",
        )
