"""One turn of the writer: what becomes of each request, decided in order, on the state as of now.

A transaction exists inside `Store.writing` only. Its rows count once `Store.writing` has ended without an error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from time import time_ns

from sfumato.accounting.event import from_json, is_refinement, to_json, unordered
from sfumato.accounting.loss import percent_down
from sfumato.errors import AnswerLost, BadParameter, BudgetExhausted, LedgerRestored, PolicyChanged, TooManyCharges
from sfumato.ledger.caps import cohort_caps
from sfumato.ledger.chain import GENESIS, STATE_EVERY, Row, RowKind, repeat_key, with_chain_hash
from sfumato.ledger.charge import FAILED_AFTER_NOISE
from sfumato.ledger.charge_counts import ChargeCounts
from sfumato.ledger.cohorts import cohorts_content
from sfumato.ledger.damage import damaged, unavailable
from sfumato.ledger.one_time_grants import grant_for, no_such_grant
from sfumato.ledger.recorded_policy import DATASET, name_of
from sfumato.ledger.request import Request
from sfumato.ledger.state import (
    EMPTY,
    State,
    StreamProgress,
    after,
    folded,
    reached_content,
    renewed,
    require_next,
    started,
    sums_text,
)
from sfumato.ledger.store import Store
from sfumato.ledger.windows import window_end

_CLOCK_TOLERANCE_MICROSECONDS = 300 * 10**6
"""How much the clocks of several servers may differ; a clock that is further back is refused."""
_ASK_THE_OWNER = "file a request for this question (docs/requests.md), "


@dataclass(frozen=True, slots=True)
class Reserved:
    """The charge is on its way to the disk, or was there without an outcome: the asker may answer after the turn."""

    row: Row


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """The same question was answered before."""

    row: Row
    """The charge that paid for it."""
    release: str


@dataclass(frozen=True, slots=True)
class InProgress:
    """The same question is already being answered: come again when the charge at `sequence` has ended."""

    sequence: int


class LedgerTransaction:
    """The state during one turn, and the rows that it adds."""

    def __init__(
        self,
        store: Store,
        state: State,
        answering: Callable[[int], bool],
        charge_counts: ChargeCounts | None = None,
    ) -> None:
        self._store = store
        self._charge_counts = charge_counts or ChargeCounts()
        self._answering = answering
        """Whether a charge is being answered somewhere."""
        self.state = caught_up(store, state)
        self._durable = self.state.sequence
        """The last row that was durable when the turn began."""
        self._clock = time_ns() // 1000

    def add(self, row: Row) -> Row:
        """Append a row; its sequence, time and head are filled in here. A row that does not fit is refused."""
        self._require_clock()
        return self._append_row(row)

    def accept_clock(self) -> int:
        """Put on record that the clock is right although it is behind the last entry; return by how much, or 0.

        Only the owner may say so: a user who sets the clock of a machine back to an old copy of itself cannot.
        """
        if not self._is_behind():
            return 0
        behind = self.state.time - self._clock
        self._append_row(Row(0, RowKind.CLOCK.value, self._clock))
        return behind

    def mark_restored(self, cut: int, content: str) -> None:
        """Put on record that the entries up to the cut came from a backup: nothing is answered from here on."""
        self.add(Row(0, RowKind.RESTORED.value, 0, about=cut, content=content))

    def accept_restored(self, sentence: str, lost: Request | None) -> None:
        """Put on record that the owner accepts what a restore may have lost, and charge what they count as lost.

        The charge comes first: where it does not fit, nothing is accepted.
        """
        if lost is not None:
            self._append_charge(lost, "", repeat_key(lost.account, lost.fingerprint, lost.version))
        self.add(Row(0, RowKind.ACCEPTED.value, 0, about=self.state.restored, content=sentence))

    def require_ready(self) -> None:
        """Refuse where every account's charge would be refused: a restore that waits, or a clock that is behind."""
        self._require_accepted()
        self._require_clock()

    def _require_accepted(self) -> None:
        if self.state.restored:
            raise LedgerRestored()

    def _is_behind(self) -> bool:
        return self._clock < self.state.time - _CLOCK_TOLERANCE_MICROSECONDS

    def _require_clock(self) -> None:
        if self._is_behind():
            raise unavailable(
                "The clock of this machine is behind the last entry, so the order of entries could not be trusted.",
                "Nothing was released. Set the clock, and ask again. If the clock is right and was wrong when "
                "the last entry was written, the owner can confirm it: sfumato verify POLICY --accept-clock.",
            )

    def _append_row(self, row: Row) -> Row:
        if (self.state.sequence + 1) % STATE_EVERY == 0:
            self._append(Row(0, RowKind.STATE.value, 0, content=sums_text(self.state)))
        return self._append(row)

    def _append(self, row: Row) -> Row:
        time = row.time or max(self._clock, self.state.time)
        whole = with_chain_hash(self.state.head, row._replace(sequence=self.state.sequence + 1, time=time))
        changed = after(self.state, whole)
        self._store.append(whole)
        self.state = changed
        return whole

    def reserve(self, request: Request, key: str) -> Reserved | StoredRelease | InProgress:
        """Charge a request, or find its answer, or say which charge to wait for, or refuse."""
        self._require_accepted()
        self._require_clock()
        if request.policy != self.state.policy:
            raise PolicyChanged(
                "Another policy is in force.",
                "The owner has recorded it in the ledger since this database was opened.",
                "Nothing was charged. Open the database again with the policy that holds now.",
            )
        if request.account not in self.state.accounts:
            raise BadParameter(
                "This account does not exist.", "The policy names no such analyst.", "Open as one that it names."
            )
        if key and (found := self._resume(request, key)):
            return found
        if settled := self._find_settled(request, request.account):
            return self._stored_release(settled)
        if request.shared and (found := self._of_others(request, key)):
            return found
        for same in _repeat_keys(request, request.account):
            if place := self.state.unanswered.get(same):
                if found := self._taken_up(place, request, key):
                    return found
                # the price of the same words has changed
                self.add(Row(0, RowKind.FAILED.value, 0, same=same, about=place))
        return Reserved(
            self._append_charge(request, key, repeat_key(request.account, request.fingerprint, request.version))
        )

    def _find_settled(self, request: Request, account: str) -> Row | None:
        """Return the release of an account under one of the names of a request."""
        found = map(self._store.answer, _repeat_keys(request, account))
        return next((settled for settled in found if settled is not None), None)

    def _of_others(self, request: Request, key: str) -> Reserved | StoredRelease | InProgress | None:
        """Find the answer that another account has paid for, or the one that is just being given to it."""
        for account in self.state.accounts:
            if account == request.account:
                continue
            if settled := self._find_settled(request, account):
                return self._stored_release(settled)
            for same in _repeat_keys(request, account):
                place = self.state.unanswered.get(same)
                if place is not None and (found := self._taken_up(place, request, key)):
                    return found
        return None

    def _taken_up(self, place: int, request: Request, key: str) -> Reserved | InProgress | None:
        """Continue a charge without an outcome, unless it is being answered; None where it paid for something else.

        Another event, or the people of other cohorts, is a charge of its own: proofs/cohorts.md, 1. So is another
        answer that is refined, which the key names: proofs/refinement.md, 4.
        The attempt that made it has ended, and nothing of it was stored. So nothing of it was shown.
        """
        if self._answering(place):
            return InProgress(place)
        charge = self._read_entry(place)
        same_price = unordered(from_json(charge.event)) == unordered(request.event)
        same_people = charge.content == cohorts_content(request.cohorts)
        same_source = charge.key == key or not is_refinement(request.event)
        return Reserved(charge) if same_price and same_people and same_source else None

    def name(self) -> str:
        """Return what the dataset is called under the policy in force."""
        row = self._store.policy(self.state.policy)
        before = None if row is None else self._store.row(row.sequence - 1)
        if row is None or row != with_chain_hash(GENESIS if before is None else before.head, row):
            raise damaged("The policy in force is not what was written.")
        return name_of(row)

    def is_request(self, place: int) -> bool:
        """Tell whether an entry is a request, whatever became of it."""
        row = self._store.row(place)
        return row is not None and row.kind == RowKind.REQUESTED

    def count_requests(self, account: str, microseconds: int) -> int:
        """Return how many requests an account has filed in this time before now."""
        return self._store.count_requests(account, max(self._clock, self.state.time) - microseconds)

    def settle(self, charge: Row, release: str) -> None:
        """Store the release of a charge."""
        self._require_accepted()
        if self.state.unanswered.get(charge.same) != charge.sequence:
            raise AnswerLost(
                f"Charge {charge.sequence} has an outcome already.",
                "Another process took over because this one seemed to have stopped.",
                "Nothing of this attempt was released. Ask again: it is free.",
            )
        self.add(Row(0, RowKind.SETTLED.value, 0, same=charge.same, about=charge.sequence, content=release))

    def reach(self, place: int, reached: StreamProgress) -> None:
        """Note that a stream has come one step further, or has begun; a note that exists already is left alone."""
        self._require_accepted()
        known = self.state.reached.get(place)
        if known == reached:
            return
        charge = self._store.row(place)
        if charge is None or charge.kind != RowKind.CHARGED:
            raise damaged(f"Entry {place} is not a charge.")
        require_next(known, reached)
        content = reached_content(reached)
        self.add(Row(0, RowKind.REACHED.value, 0, same=charge.same, about=place, content=content))

    def _resume(self, request: Request, key: str) -> Reserved | StoredRelease | InProgress | None:
        """Find what became of the charge with this key; None where there is none."""
        charge = self._store.keyed(request.account, key)
        if charge is None:
            return None
        same = charge.same
        if same not in _repeat_keys(request, request.account):
            raise BadParameter(
                "This key was used for another question.",
                "A key names one attempt at one question about one snapshot of the data.",
                "Nothing was charged. Ask with a new key.",
            )
        settled = self._store.answer(same)
        if settled is not None:
            return self._stored_release(settled)
        if self.state.unanswered.get(same) == charge.sequence:
            found = self._taken_up(charge.sequence, request, key)
            if found is not None:
                return found
        raise AnswerLost(
            f"The question of this key was charged as entry {charge.sequence}, and its answer was lost.",
            "A version before 0.9.0 recorded that this attempt failed, or the ledger was restored from a backup since.",
            "It stays charged. Ask again with a new key: that is a new charge.",
        )

    def _stored_release(self, settled: Row) -> StoredRelease:
        charge, outcome = self._read_entry(settled.about), self._read_entry(settled.sequence)
        if charge.same != outcome.same:
            raise damaged(f"Entry {outcome.sequence} is not what was written.")
        if outcome.content == FAILED_AFTER_NOISE:
            raise AnswerLost(
                f"This question was charged as entry {charge.sequence}, and its answer was lost.",
                "The attempt failed after drawing noise. Another attempt would draw noise twice for one charge.",
                "It stays charged. Ask at another price, or ask the owner for a new snapshot: either is a new charge.",
            )
        return StoredRelease(charge, outcome.content)

    def _read_entry(self, sequence: int) -> Row:
        """Return an entry that an index or a sum led to, if it is what was written."""
        row, before = self._store.row(sequence), self._store.row(sequence - 1)
        if row is None or before is None or row != with_chain_hash(before.head, row):
            raise damaged(f"Entry {sequence} is missing, or not what was written.")
        return row

    def _require_few_charges(self, account: str) -> None:
        most = self._charge_counts.max_charges
        if self.state.sequence >= most and self._count_charges(account) >= most:
            raise TooManyCharges(
                f"This account has made {most:,} charges, which is its limit.",
                "Each charge is stored forever, so their number is limited.",
                "Nothing was charged. Ask several questions as one with `ask_all`, or ask the owner to raise "
                "`budget.charges`.",
            )

    def _count_charges(self, account: str) -> int:
        """Return how many charges an account has made, with those of this turn, which may be taken back."""
        durable, last = self._charge_counts.count(self._store, account, self._durable), self.state.sequence
        return durable + (self._store.count_charges(account, self._durable, last) if last > self._durable else 0)

    def _append_charge(self, request: Request, key: str, same: str) -> Row:
        self._require_few_charges(request.account)
        event = to_json(request.event)
        grant = grant_for(self.state.requests, request.account, request.fingerprint, event)
        if request.only_granted and not grant:
            raise no_such_grant()
        try:
            return self.add(
                Row(
                    sequence=0,
                    kind=RowKind.CHARGED.value,
                    time=0,
                    account=request.account,
                    question=request.fingerprint,
                    sql=request.sql,
                    event=event,
                    loss=f"{request.loss.epsilon} {request.loss.delta}",
                    policy=request.policy,
                    version=request.version,
                    receipt=request.receipt,
                    key=key,
                    same=same,
                    about=grant,
                    content=cohorts_content(request.cohorts),
                )
            )
        except BudgetExhausted:
            refusal = self._budget_exhausted(request, (DATASET,) if grant else (request.account, DATASET))
        raise refusal

    def _budget_exhausted(self, request: Request, accounts: tuple[str, ...]) -> BudgetExhausted:
        """Say whose cap it is: the analyst's where that one has no room, else the dataset's."""
        state = renewed(self.state, self.state.windows, max(self._clock, self.state.time))
        name, cohort, budget = next(
            (name, cohort, cap)
            for name in accounts
            for cohort, cap in cohort_caps(state, name, request.cohorts)
            if not cap.accepts(request.event)
        )
        of_cohort = f"the cohort {cohort} of " if cohort and request.cohorts and request.cohorts.shown else ""
        whose = f"{of_cohort}{name or 'the dataset'} has"
        key = f"analysts.{name}.epsilon" if name else "budget.epsilon"
        why = ""
        try:
            budget.charge(request.event)
        except BudgetExhausted as refusal:
            why = refusal.why
        left = percent_down(1 - min(Fraction(1), budget.used))
        window = state.windows.get(name)
        until = "" if window is None else f"ask again from {window_end(window):%Y-%m-%d} (UTC) on, "
        of = "" if window is None else f" in this {window.every}"
        remedy = f"{until}{_ASK_THE_OWNER if name else ''}or ask the owner to raise `{key}`."
        return BudgetExhausted(
            f"This question costs {request.loss}; {whose} {left} of {budget.total} left{of}.",
            why,
            f"Nothing was charged. Ask for less, {remedy}",
        )


def _repeat_keys(request: Request, account: str) -> list[str]:
    """Return what entries hold that an account has made for the same measurements, the newest form first."""
    names = (request.fingerprint, *request.older)
    return [repeat_key(account, name, request.version) for name in names]


def caught_up(store: Store, state: State) -> State:
    """Return the state after what others have appended since."""
    known, *behind = store.heads(state.sequence) or [(0, "")]
    if known != (state.sequence, state.head):
        raise damaged(f"Entry {state.sequence} is gone or another: the ledger was rewound while it was in use.")
    for row in store.after(state.sequence) if behind else ():
        state = folded(state, row)
    return state


def opened_state(store: Store) -> State:
    """Return the state of a ledger: from its last state row on, each row is checked and folded."""
    last = store.last()
    place = last - last % STATE_EVERY
    state = EMPTY
    if place:
        before, row = store.row(place - 1), store.row(place)
        if before is None or row is None or row.kind != RowKind.STATE or row != with_chain_hash(before.head, row):
            raise damaged(f"Entry {place} is not the state that belongs there.")
        state = started(row)
    for row in store.after(place):
        state = folded(state, row)
    return state
