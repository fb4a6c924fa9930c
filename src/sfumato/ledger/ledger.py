"""The ledger: every release is charged here, durably, before any data is read for it. Proof: proofs/ledger.md

All tasks that wait are done in their order in one transaction, with one synchronisation of the disk for all: see
`turns`. Caps are decided there, one after another, on the state as it is on the disk, so they hold exactly.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from fractions import Fraction
from functools import partial
from threading import Event as Signal
from threading import Lock
from time import monotonic, sleep
from traceback import clear_frames
from weakref import WeakSet

from sfumato.accounting.calibrate import most_queries
from sfumato.accounting.event import Event
from sfumato.accounting.filter import Filter
from sfumato.errors import AnswerLost, BadParameter, LedgerDamaged, LedgerUnavailable, Refusal
from sfumato.ledger.budget import FILTER_USAGE_NOTE, Budget
from sfumato.ledger.caps import account_budget, account_budgets, caps_of, effect_on
from sfumato.ledger.chain import Row, repeat_key
from sfumato.ledger.charge import FAILED_AFTER_NOISE, Charge, Ending, require_key, require_storable
from sfumato.ledger.charge_counts import ChargeCounts
from sfumato.ledger.cohorts import PayingCohorts
from sfumato.ledger.damage import damaged, failed, failing_closed, unavailable
from sfumato.ledger.group_commit import Task, Turn, Turns
from sfumato.ledger.history import Entry, entry_of
from sfumato.ledger.one_time_grants import OpenRequest
from sfumato.ledger.recorded_policy import DATASET
from sfumato.ledger.repeats import find_repeat, is_paid
from sfumato.ledger.request import Request
from sfumato.ledger.state import State, StreamProgress, is_digest, present
from sfumato.ledger.store import MAX_COMPARED_CHARGES, MAX_COMPARED_VIEWS, Store
from sfumato.ledger.transaction import InProgress, LedgerTransaction, Reserved, StoredRelease, caught_up, opened_state
from sfumato.ledger.verifying import Verified
from sfumato.planning.budget_effect import BudgetEffect
from sfumato.policy.policy import MAX_CHARGES_PER_ACCOUNT

__all__ = ["FILTER_USAGE_NOTE", "Budget", "Charge", "Entry", "Ledger", "StreamProgress", "Verified"]

_REPEAT_TIMEOUT_SECONDS = 600.0
"""How long a question waits for the same question that is being answered elsewhere."""
_POLL_SECONDS = 0.01
_ALL_ENTRIES = 2**63 - 1


class Ledger:
    """An open ledger. Threads may share one, processes one file or server; after a fork it opens itself again."""

    def __init__(self, open_store: Callable[[], Store], max_charges: int = MAX_CHARGES_PER_ACCOUNT) -> None:
        self._open_store = open_store
        self._max_charges = max_charges
        self._begin()
        self._store: Store | None = open_store()
        try:
            self._state = opened_state(self._store)
        except BaseException:
            self._store.close()
            raise
        _LEDGERS.add(self)

    def _begin(self) -> None:
        self._closed = False
        self._writing = Lock()
        self._marking = Lock()
        self._turns = Turns(self._do_all)
        self._charge_counts = ChargeCounts(self._max_charges)
        self._answering: dict[int, Signal] = {}
        self._pending: dict[int, tuple[Row, str]] = {}
        """Outcomes that could not be stored when they were there. They are stored before anything else is charged."""

    @contextmanager
    def charge(self, request: Request, key: str | None = None) -> Iterator[Charge]:
        """Charge a release before it happens; when the body begins, the charge is durable.

        The same question under the same policy, version and account gives its stored release, at no cost; while it is
        being answered elsewhere, this waits for that answer. Leaving without `settle` refunds nothing: the charge
        stays, and asking the same takes it up, with the same `key`, another one or none. An attempt that failed after
        it drew noise is not taken up, but refused as `answer_lost`.
        """
        require_key(key)
        for text in (request.account, request.fingerprint, request.sql, request.version, request.receipt, key or ""):
            require_storable(text)
        charge = self._charge(request, key or "")
        try:
            yield charge
        except BaseException as error:
            clear_frames(error.__traceback__)  # the data read is freed before the outcome's time, not after it
            raise
        finally:
            charge.close()

    @failing_closed()
    def budget(self, account: str = DATASET, paying: PayingCohorts | None = None) -> Budget:
        """Return what is left: for the dataset under the empty name; for an analyst, the tighter of both caps.

        An analyst's question is charged to their own cap and to the dataset's. The one with less left
        decides what they can still ask, so it is the one shown, with its own total.
        """
        return account_budget(self._present(), account, paying)

    @failing_closed()
    def budgets(self, opened: Callable[[State], State] | None = None) -> dict[str, Budget]:
        """Return every account that was ever named, at its own cap; the dataset's under the empty name.

        `opened` says what the state would be under another policy.
        """
        state = self._present()
        return account_budgets(state if opened is None else opened(state))

    @failing_closed()
    def effect_of(
        self,
        event: Event | None,
        account: str = DATASET,
        granted: bool = False,
        paying: PayingCohorts | None = None,
    ) -> BudgetEffect:
        """Return what a charge of this event would do to the account's own cap; with a grant it is left as it is."""
        return effect_on(self._present(), account, event, granted, paying)

    @failing_closed()
    def count_affordable(self, event: Event, account: str = DATASET, paying: PayingCohorts | None = None) -> int:
        """Return how many more releases with this event fit, under both caps."""
        return min(most_queries(cap, event) for cap in caps_of(self._present(), account, paying))

    def account(self, account: str = DATASET, paying: PayingCohorts | None = None) -> Filter:
        """Return an account's own filter as it is now; the dataset's under the empty name."""
        return self.caps(account, paying)[0]

    @failing_closed()
    def caps(self, account: str = DATASET, paying: PayingCohorts | None = None) -> tuple[Filter, ...]:
        """Return all caps that a charge has to fit into, as of one moment: the account's own, then the dataset's."""
        return caps_of(self._present(), account, paying)

    @failing_closed()
    def caps_of_new(
        self, account: str, version: str, beginnings: Sequence[str], paying: PayingCohorts | None = None
    ) -> tuple[Filter, ...] | None:
        """Return all caps of an account that has no request, and no charge whose question begins so; else None.

        Of a question that begins so, the account then has no answer and no attempt.
        """
        with self._writing:
            known = self._current().has_beginning(account, version, beginnings)
            state = present(self._state)
        if known or any(one.account == account for one in state.requests.values()):
            return None
        return caps_of(state, account, paying)

    @failing_closed()
    def open_requests(self) -> Mapping[int, OpenRequest]:
        """Return the requests that wait for the owner, or are approved and not used."""
        return self._now().requests

    def has_any_grant(self, account: str) -> bool:
        """Tell whether the owner has ever approved a request of this account that is open or was used."""
        approved = {request.account for request in self.open_requests().values() if request.approved}
        return account in self._state.granted or account in approved

    def request_rows(self, account: str | None, limit: int) -> list[list[Row]]:
        """Return the last requests of an account, or of all, newest first, each with the entries about it."""
        return self._reading().requests(account, limit)

    @failing_closed()
    def find_repeat(self, account: str, questions: Sequence[str], version: str, key: str | None = None) -> int | None:
        """Return which of several questions the account has an answer to, or has charged under this key; else None."""
        names = [repeat_key(account, question, version) for question in questions]
        with self._writing:
            store = self._current()
            return find_repeat(store, self._state, names, store.keyed(account, key) if key else None)

    @failing_closed()
    def is_paid(self, account: str, questions: Sequence[str], version: str, event: Event, key: str = "") -> bool:
        """Whether the account has an answer to one of these questions, or a charge of this event that has none yet."""
        with self._writing:
            names = [repeat_key(account, question, version) for question in questions]
            return is_paid(self._current(), self._state, names, event, key)

    @failing_closed()
    def affords(self, account: str = DATASET, paying: PayingCohorts | None = None) -> Fraction:
        """Return the most that one more pure release may cost, under both caps, rounded down; 0 if nothing fits."""
        return min(cap.affords for cap in caps_of(self._present(), account, paying))

    @failing_closed()
    def history(
        self, account: str | None = None, limit: int | None = None, before: int | None = None
    ) -> tuple[Entry, ...]:
        """Return what was charged by this account, or by all, newest first.

        At most `limit` entries, of those whose sequence is below `before`; no others are read.
        """
        with self._writing:
            store = self._current()
            state = self._state
        page = store.charges(account, before or _ALL_ENTRIES, limit or _ALL_ENTRIES)
        return tuple(entry_of(charge, settled, self._is_open(state, charge)) for charge, settled in page)

    def accounts(self) -> tuple[str, ...]:
        """Return the names of all accounts; the dataset's is empty."""
        return tuple(self._state.accounts)

    @failing_closed()
    def charges_beginning(self, account: str, version: str, beginning: str) -> list[tuple[str, Entry]]:
        """Return the last questions of an account that begin so and have a release, with it, newest first."""
        found = self._reading().beginning(account, version, beginning, MAX_COMPARED_CHARGES)
        return [
            (charge.question, entry_of(charge, settled, being_answered=False))
            for charge, settled in found
            if settled is not None and settled.content != FAILED_AFTER_NOISE
        ]

    @failing_closed()
    def charges_of_family(self, account: str, version: str, family: str) -> list[tuple[str, str]]:
        """Return question and receipt of the last charges that partitioned the same rows, the newest first."""
        found = self._reading().family(account, version, family, MAX_COMPARED_VIEWS)
        return [(charge.question, charge.receipt) for charge in found]

    @failing_closed()
    def count_charges(self, account: str) -> int:
        """Return how many charges an account has made."""
        with self._writing:
            return self._charge_counts.count(self._reopen_store(), account)

    def _is_open(self, state: State, charge: Row) -> bool:
        """Tell whether a charge without an outcome is being answered somewhere."""
        if charge.sequence > state.sequence:  # it came after we looked
            return True
        if state.unanswered.get(charge.same) != charge.sequence:
            return False
        with self._writing:
            return self._is_answered(charge.sequence)

    @failing_closed()
    def settled(self, receipt: str, account: str | None = None) -> Entry | None:
        """Return the entry with this receipt and its release, by this account or by any; no other is read."""
        found = self._reading().settled(receipt) if receipt.isprintable() else None
        if found is None or account not in (None, found[0].account):
            return None
        return entry_of(*found, being_answered=False)

    @failing_closed()
    def stored(self, account: str, question: str, version: str) -> str | None:
        """Return the release of a question that an account has paid for; None where there is none."""
        with self._writing:
            row = self._reopen_store().answer(repeat_key(account, question, version))
        return None if row is None or row.content == FAILED_AFTER_NOISE else row.content

    @failing_closed()
    def verify(self) -> Verified:
        """Have the second reader compute every hash and every sum again; what does not hold is refused."""
        return self._reading().verify()

    @failing_closed()
    def require(self, sequence: int, head: str) -> None:
        """Refuse a ledger that does not hold the entry of a receipt: an older copy of it was put back."""
        row = self._reading().row(sequence)
        if row is None or row.head != head:
            raise damaged(
                f"It does not contain entry {sequence} with the head of the receipt: an older copy was restored "
                "together with its anchor, or it is another ledger.",
                "Answers were given that this ledger does not count. Restore a ledger that contains the receipt, "
                "with its anchor. Do not answer questions until then.",
            )

    def close(self) -> None:
        """Let go of the ledger. Closing twice is fine; a charge that is open then stays charged."""
        with suppress(Refusal):
            self._store_pending()
        with self._writing:
            if not self._closed and self._store is not None:
                self._store.close()
            self._closed, self._store = True, None

    def identity(self) -> str:
        """Return the head of the first entry: no two ledgers share it."""
        first = self._reading().row(1)
        if first is None:
            raise damaged("It has no entry.")
        return first.head

    @contextmanager
    def rows(self) -> Iterator[Iterator[Row]]:
        """Give all entries as of one moment, without waiting for the writer."""
        with self._reading().rows() as rows:
            yield rows

    def record(self, task: Task) -> None:
        """Do one more kind of task in the writer's turn: opening records policies so."""
        self._done(task)

    def require_ready(self) -> None:
        """Refuse a ledger to which no charge could be added now; nothing is added."""
        self._done(LedgerTransaction.require_ready)

    def record_progress(self, place: int, time: int, digest: str) -> None:
        """Note durably how far the stream has come that the charge at this place pays for. It never goes back."""
        if not is_digest(digest):
            raise BadParameter("This is not a digest.", "It is a SHA-256 in hexadecimal.", "Give 64 digits.")
        self._done(lambda transaction: transaction.reach(place, StreamProgress(time, digest)))

    @failing_closed()
    def reached(self, place: int) -> StreamProgress | None:
        """Return how far that stream had come; None where the charge pays for none."""
        return self._now().reached.get(place)

    def _charge(self, request: Request, key: str) -> Charge:
        deadline = monotonic() + _REPEAT_TIMEOUT_SECONDS
        ending = Ending(self._store_outcome, lambda row: self._forget(row.sequence))
        while True:
            self._store_pending()
            match self._done(lambda transaction: transaction.reserve(request, key)):
                case Reserved(row):
                    return Charge(row, None, ending)
                case StoredRelease(row, release):
                    return Charge(row, release, ending)
                case InProgress(sequence):
                    self._wait_for(sequence, deadline)
                case _:
                    raise AssertionError("a reservation has three outcomes")

    def _wait_for(self, sequence: int, deadline: float) -> None:
        """Wait until the charge is no longer being answered, here or in another process."""
        here = self._answering.get(sequence)
        if here is not None:
            here.wait(deadline - monotonic())
        else:
            while self._is_answered_elsewhere(sequence) and monotonic() < deadline:
                sleep(_POLL_SECONDS)
        if monotonic() >= deadline:
            raise unavailable(
                "The same question is still being answered in another session.", "Nothing was charged. Ask again later."
            )

    def _is_answered_elsewhere(self, sequence: int) -> bool:
        with self._writing:
            return self._is_answered(sequence)

    def _is_answered(self, sequence: int) -> bool:
        return sequence in self._answering or self._reopen_store().is_claimed(sequence)

    def _store_outcome(self, row: Row, outcome: str) -> None:
        """Store the outcome of a charge, and let those go on who wait for it; where that fails, before the next charge.

        The outcome is kept in memory then, and the mark with it: an attempt here or in another process would draw a
        second noise. An outcome that is not stored was not shown.
        """
        if row.sequence not in self._answering:  # closed, or this is the child of the process that charged
            raise unavailable("This charge belongs to another process, or its ledger was closed.")
        try:
            self._done(lambda transaction: transaction.settle(row, outcome))
        except AnswerLost:
            self._forget(row.sequence)
            raise
        except BaseException:
            self._pending[row.sequence] = row, outcome
            if signal := self._answering.get(row.sequence):
                signal.set()
            raise
        self._forget(row.sequence)

    def _store_pending(self) -> None:
        """Store the outcomes that wait for the disk, or refuse."""
        for row, outcome in list(self._pending.values()):
            with suppress(AnswerLost):  # it was stored meanwhile
                self._done(partial(LedgerTransaction.settle, charge=row, release=outcome))
            self._pending.pop(row.sequence, None)
            self._forget(row.sequence)

    def _forget(self, sequence: int) -> None:
        if (signal := self._answering.pop(sequence, None)) is not None:
            with self._marking, suppress(Refusal):
                if self._store is not None:
                    self._store.disclaim(sequence)
            signal.set()

    @failing_closed()
    def _done(self, task: Task) -> object:
        """Have a task done in the next turn, together with all others that wait."""
        turn = Turn(task)
        try:
            self._turns.take(turn)
        except BaseException:
            self._give_up(turn)
            raise
        if isinstance(turn.result, Refusal):
            raise turn.result
        return turn.result

    def _give_up(self, turn: Turn) -> None:
        """No caller waits for this one any more: what it reserved must not keep others waiting."""
        if isinstance(turn.result, Reserved):
            self._forget(turn.result.row.sequence)

    def _do_all(self, turns: list[Turn]) -> None:
        """Do all tasks in one transaction. Either all their rows are durable afterwards, or each task is refused."""
        claimed: list[int] = []
        results: list[object] = []
        failure: Refusal | None = None
        whole = False
        try:
            with self._writing:
                store = self._reopen_store()
                with store.writing():
                    transaction = LedgerTransaction(store, self._state, self._is_answered, self._charge_counts)
                    for turn in turns:
                        results.append(_result(transaction, turn.task))
                        if isinstance(reserved := results[-1], Reserved):
                            sequence = reserved.row.sequence
                            if store.claim(sequence):  # before the commit shows it to other processes
                                claimed.append(sequence)
                                self._answering[sequence] = Signal()
                            else:
                                results[-1] = InProgress(sequence)
                self._state = transaction.state
                whole = True
        except Refusal as refusal:
            failure = refusal
        except Exception:
            failure = failed()
        finally:
            if not whole:
                failure = failure or unavailable("The program was interrupted.")
                for sequence in claimed:
                    self._forget(sequence)
                results = [copy(failure) for _ in turns]  # each thread raises its own
            for turn, result in zip(turns, results, strict=True):
                turn.result = result
                if turn.abandoned:
                    self._give_up(turn)

    def _current(self) -> Store:
        """Return the store, after the state has caught up with it."""
        store = self._reopen_store()
        self._state = caught_up(store, self._state)
        return store

    def _reopen_store(self) -> Store:
        """Return the store; the writer's turn is held. After a fork it is opened anew."""
        if self._closed:
            raise unavailable("It was closed.", "Open the database again.")
        if self._store is None:
            store = self._open_store()
            try:
                self._state = opened_state(store)
            except BaseException:
                store.close()
                raise
            self._store = store
        return self._store

    def _reading(self) -> Store:
        with self._writing:
            return self._reopen_store()

    def _present(self) -> State:
        """Return the state as of now, in the windows of now."""
        return present(self._now())

    def _now(self) -> State:
        """Return the state as of now."""
        with self._writing:
            self._current()
            return self._state

    def _after_fork(self) -> None:
        """Be a ledger of this process: the parent's connection, locks and charges are the parent's."""
        closed, store = self._closed, self._store
        self._begin()
        self._closed, self._store = closed, None
        if store is not None:
            store.abandon()


def _result(transaction: LedgerTransaction, task: Task) -> object:
    """Do one task. What it refuses is its own affair; a ledger that does not work ends the turn for all."""
    try:
        return task(transaction)
    except (LedgerDamaged, LedgerUnavailable):
        raise
    except Refusal as refusal:
        return refusal


_LEDGERS: WeakSet[Ledger] = WeakSet()


def _after_fork() -> None:
    for ledger in list(_LEDGERS):
        ledger._after_fork()


if hasattr(os, "register_at_fork"):  # clients run on Windows too, which has no fork
    os.register_at_fork(after_in_child=_after_fork)
