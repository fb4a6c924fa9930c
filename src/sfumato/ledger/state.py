"""State derived from the rows of a ledger: one filter per account, the policy in force, the charges without an answer.

A state is derived by folding rows in their order, and never written otherwise: a state in a row is a copy of the fold
so far, so that opening can begin there.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from time import time_ns

from sfumato.accounting.event import Event, Neighbours, from_json
from sfumato.accounting.filter import Filter
from sfumato.caches import remembered
from sfumato.errors import Refusal, StreamDamaged
from sfumato.ledger.chain import GENESIS, STATE_EVERY, Row, RowKind, repeat_key, same_question_before, with_chain_hash
from sfumato.ledger.cohorts import CohortCaps, PayingCohorts, changed_caps, collapsed, read_cohorts
from sfumato.ledger.damage import damaged
from sfumato.ledger.one_time_grants import OpenRequest, following, requests_from_json, requests_json, used
from sfumato.ledger.recorded_policy import DATASET, RecordedPolicy, from_content, with_caps
from sfumato.ledger.windows import Windows, due, emptied, under_policy, windows_from_json, windows_json

NOT_WRITTEN_SO = (Refusal, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions raised by reading a row that no ledger has written."""
_read_event = remembered(4096)(from_json)


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """How far a stream has come: after this many steps, the digest of all that it released."""

    time: int
    digest: str


@dataclass(frozen=True, slots=True)
class State:
    """The sums after `sequence` rows."""

    sequence: int
    head: str
    time: int
    policy: str
    tables: str
    neighbours: Neighbours | None
    accounts: Mapping[str, Filter]
    """By folded name, the dataset's under the empty one: all that were ever named, at their latest caps."""
    unanswered: Mapping[str, int]
    """The charges that are neither settled nor failed: what they ask (`Row.same`), and where they are."""
    reached: Mapping[int, StreamProgress] = field(default_factory=dict)
    """By the place of its charge, how far each stream has come."""
    restored: int = 0
    """Where the ledger was restored from a backup and the owner has not accepted it yet; 0 elsewhere."""
    requests: Mapping[int, OpenRequest] = field(default_factory=dict)
    """By their place, the requests that wait or are approved and not used."""
    granted: Mapping[str, int] = field(default_factory=dict)
    """By account, how many charges were paid for by grants: they are in the dataset's sums alone."""
    windows: Windows = field(default_factory=dict)
    """By account, the window that its sums are of, where its cap renews."""
    cohorts: CohortCaps = field(default_factory=dict)
    """The filters of cohorts that were charged apart; a cohort without one has that of the account."""
    kept: str = ""
    """The assignment of people to cohorts that they are of."""
    together: frozenset[str] = frozenset()
    """The accounts whose caps all cohorts share: they have one filter, whichever cohorts pay."""

    @property
    def spent(self) -> bool:
        """Whether anything was ever charged."""
        return DATASET in self.accounts and self.accounts[DATASET].neighbours is not None


EMPTY = State(0, GENESIS, 0, "", "", None, {}, {})


def folded(state: State, row: Row) -> State:
    """Return the state after one more row that was read; a row that does not follow is damage."""
    backwards = row.time < state.time and row.kind != RowKind.CLOCK
    if row.sequence != state.sequence + 1 or row != with_chain_hash(state.head, row) or backwards:
        raise damaged(f"Entry {state.sequence + 1} does not follow from the one before.")
    if (row.sequence % STATE_EVERY == 0) != (row.kind == RowKind.STATE):
        raise damaged(f"Entry {row.sequence} is not where it belongs.")
    try:
        return after(state, row)
    except NOT_WRITTEN_SO:
        pass
    raise damaged(f"Entry {row.sequence} cannot have been written after those before.")


def after(state: State, row: Row) -> State:
    """Return the state after a row that follows. A charge that does not fit is refused by its filter."""
    match row.kind:
        case RowKind.POLICY:
            changed = _under(state, row)
        case RowKind.CHARGED:
            changed = _apply_charge(state, row)
        case RowKind.SETTLED | RowKind.FAILED:
            if state.unanswered[row.same] != row.about:
                raise ValueError("no such charge")
            rest = {same: sequence for same, sequence in state.unanswered.items() if same != row.same}
            changed = replace(state, unanswered=rest)
        case RowKind.REACHED:
            changed = replace(state, reached={**state.reached, row.about: _further(state, row)})
        case RowKind.STATE:
            if row.content != sums_text(state):
                raise ValueError("not the sums so far")
            changed = state
        case RowKind.CLOCK:
            changed = state
        case RowKind.RESTORED:
            if row.about not in range(1, row.sequence) or not read_restored(row.content):
                raise ValueError("not a restore")
            changed = replace(state, restored=row.sequence)
        case RowKind.REQUESTED | RowKind.REPLIED | RowKind.APPROVED | RowKind.DECLINED | RowKind.WITHDRAWN:
            changed = replace(state, requests=following(state.requests, row))
        case RowKind.ACCEPTED:
            if not state.restored or row.about != state.restored:
                raise ValueError("nothing to accept")
            # a charge that was open in the backup may have been answered since: proofs/ledger.md, claim 8b
            changed = replace(state, restored=0, unanswered={}, reached={}, requests={})
        case _:
            raise ValueError("an unknown kind")
    return replace(changed, sequence=row.sequence, head=row.head, time=row.time)


def started(row: Row) -> State:
    """Return the state that a state row holds, whatever came before it."""
    try:
        data = json.loads(row.content)
        accounts = {name: _filter(fields) for name, fields in data["accounts"].items()}
        neighbours = Neighbours(data["neighbours"])
        return State(
            row.sequence,
            row.head,
            row.time,
            data["policy"],
            data["tables"],
            neighbours,
            accounts,
            {str(same): int(sequence) for same, sequence in data["unanswered"].items()},
            {
                int(sequence): StreamProgress(int(time), str(digest))
                for sequence, (time, digest) in data.get("reached", {}).items()
            },
            int(data.get("restored", 0)),
            requests_from_json(data.get("requests", {})),
            {str(name): int(times) for name, times in data.get("granted", {}).items()},
            windows_from_json(data.get("windows", {})),
            {
                str(cohort): {str(name): _filter(fields) for name, fields in caps.items()}
                for cohort, caps in data.get("cohorts", {}).items()
            },
            str(data.get("kept", "")),
            frozenset(map(str, data.get("together", ()))),
        )
    except NOT_WRITTEN_SO:
        pass
    raise damaged(f"Entry {row.sequence} holds no sums.")


def sums_text(state: State) -> str:
    """Write the sums as canonical text, exact."""
    data: dict[str, object] = {
        "accounts": {name: _fields(budget) for name, budget in state.accounts.items()},
        "neighbours": state.neighbours,
        "policy": state.policy,
        "tables": state.tables,
        "unanswered": dict(state.unanswered),
    }
    if state.reached:  # a ledger without streams is written as it always was
        data["reached"] = {str(sequence): [stream.time, stream.digest] for sequence, stream in state.reached.items()}
    if state.restored:
        data["restored"] = state.restored
    if state.requests:
        data["requests"] = requests_json(state.requests)
    if state.granted:
        data["granted"] = dict(state.granted)
    if state.windows:
        data["windows"] = windows_json(state.windows)
    if state.together:
        data["together"] = sorted(state.together)
    if state.kept:
        data["kept"] = state.kept
        data["cohorts"] = {
            cohort: {name: _fields(cap) for name, cap in caps.items()} for cohort, caps in state.cohorts.items()
        }
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def restored_content(backup: str, missing: int) -> str:
    """Write from which backup a ledger was restored, and how many entries are known to be missing at least."""
    return json.dumps({"backup": backup, "missing": missing}, sort_keys=True, separators=(",", ":"))


def read_restored(content: str) -> tuple[str, int]:
    """Return the backup and the number of entries that are known to be missing; ValueError where it is no restore."""
    data = json.loads(content)
    if content != restored_content(data["backup"], data["missing"]):
        raise ValueError("not the content of a restore")
    return str(data["backup"]), int(data["missing"])


def _under(state: State, row: Row) -> State:
    policy = from_content(row.content)
    if policy.hash != row.policy or state.neighbours not in (None, policy.neighbours):
        raise ValueError("not the policy that it says")
    return under(state, policy, row.time)


def under(state: State, policy: RecordedPolicy, time: int) -> State:
    """Return the state after a policy was recorded at a time."""
    if refuses_window(state, policy):
        raise ValueError("a budget that renewed cannot hold for the lifetime")
    state = sharing_caps(renewed(state, state.windows, time), policy.together)
    return replace(
        state,
        policy=policy.hash,
        tables=policy.tables,
        neighbours=policy.neighbours,
        accounts=with_caps(state.accounts, policy),
        cohorts=changed_caps(state.cohorts, lambda name, cap: with_caps({name: cap}, policy)[name]),
        windows=under_policy(state.windows, policy.periods, policy.caps, time),
    )


def sharing_caps(state: State, names: frozenset[str]) -> State:
    """Return the state in which all cohorts share the caps of these accounts, from the largest sums on."""
    begin = names & state.accounts.keys()
    whole = collapsed({name: state.accounts[name] for name in begin}, state.cohorts)
    left = changed_caps(state.cohorts, lambda name, cap: None if name in begin else cap)
    return replace(state, accounts={**state.accounts, **whole}, cohorts=left, together=names)


def refuses_window(state: State, policy: RecordedPolicy) -> bool:
    """Whether a policy would promise a longer window than the dataset's sums are of: proofs/windows.md, 4."""
    window = state.windows.get(DATASET)
    return window is not None and state.spent and policy.periods.get(DATASET) != window.every


def present(state: State) -> State:
    """Return the state as of now: windows that have ended begin anew with the next charge."""
    return renewed(state, state.windows, max(time_ns() // 1000, state.time)) if state.windows else state


def renewed(state: State, names: Iterable[str], time: int) -> State:
    """Return the state in which the windows of these accounts that have ended by a time begin anew."""
    begun = due(state.windows, names, time)
    if not begun:
        return state
    accounts = {**state.accounts, **{name: emptied(state.accounts[name]) for name in begun}}
    cohorts = changed_caps(state.cohorts, lambda name, cap: None if name in begun else cap)
    return replace(state, accounts=accounts, cohorts=cohorts, windows={**state.windows, **begun})


def _apply_charge(state: State, row: Row) -> State:
    if row.same in state.unanswered or row.policy != state.policy:
        raise ValueError("the same question is being answered, or another policy is in force")
    names = (
        repeat_key(row.account, row.question, row.version),
        same_question_before(row.account, row.question, row.policy, row.version),
    )
    if row.same not in names:
        raise ValueError("not the question that it says")
    event = _read_event(row.event)
    if row.about:  # a grant pays for it, so it is charged to the dataset alone: proofs/approvals.md, 2
        times = state.granted.get(row.account, 0) + 1
        state = replace(state, requests=used(state.requests, row), granted={**state.granted, row.account: times})
        row = row._replace(account=DATASET)
    state = renewed(state, (DATASET, row.account), row.time)
    paying = read_cohorts(row.content)
    state = (
        charged_to_all(state, row.account, event)
        if paying is None
        else _charge_cohorts(state, row.account, event, paying)
    )
    return replace(state, unanswered={**state.unanswered, row.same: row.sequence})


def charged_to_all(state: State, account: str, event: Event) -> State:
    """Charge all people, also those who come later."""
    names = {DATASET, account}
    accounts = {**state.accounts, **{name: state.accounts[name].charge(event) for name in names}}
    cohorts = changed_caps(state.cohorts, lambda name, cap: cap.charge(event) if name in names else cap)
    return replace(state, accounts=accounts, cohorts=cohorts)


def _charge_cohorts(state: State, account: str, event: Event, paying: PayingCohorts) -> State:
    """Charge the cohorts that pay; another assignment of people to cohorts begins at the largest sums."""
    state = assigned(state, paying.kept)
    names, charged = (DATASET, account), dict(state.cohorts)
    shared = {name: state.accounts[name].charge(event) for name in names if name in state.together}
    known: dict[Filter, Filter] = {}
    for cohort in paying.names:
        own = dict(charged.get(cohort, {}))
        for name in dict.fromkeys(name for name in names if name not in shared):
            before = own.get(name, state.accounts[name])
            if before not in known:  # cohorts that were charged alike have equal filters
                known[before] = before.charge(event)
            own[name] = known[before]
        charged[cohort] = own
    relation = next(iter(known.values())).neighbours
    touched = {name: replace(state.accounts[name], neighbours=relation) for name in names}  # something was charged
    return replace(state, accounts={**state.accounts, **touched, **shared}, cohorts=charged)


def assigned(state: State, kept: str) -> State:
    """Return the state under an assignment of people to cohorts."""
    if state.kept in ("", kept):
        return replace(state, kept=kept)
    return replace(state, accounts=collapsed(state.accounts, state.cohorts), cohorts={}, kept=kept)


def _further(state: State, row: Row) -> StreamProgress:
    """Return what a stream has reached; it begins while its charge is open, and its time grows."""
    known, data = state.reached.get(row.about), json.loads(row.content)
    reached = StreamProgress(data["time"], data["digest"])
    begins = known is None and state.unanswered.get(row.same) == row.about and reached.time == 0
    follows = known is not None and reached.time == known.time + 1
    written_so = type(reached.time) is int and row.content == reached_content(reached) and is_digest(reached.digest)
    if not written_so or not (begins or follows):
        raise ValueError("not the next step of a stream")
    return reached


def require_next(known: StreamProgress | None, reached: StreamProgress) -> None:
    """Refuse what is not the beginning of a stream, or its next step."""
    if reached.time != (0 if known is None else known.time + 1):
        raise StreamDamaged(
            "The stream does not continue what was released.",
            "The ledger knows of other steps of it: this file is an old copy, or one of two.",
            "Nothing was released. Go on with the newest copy of the stream's file.",
        )


def is_digest(text: str) -> bool:
    """Whether a text is a SHA-256 in hexadecimal."""
    return re.fullmatch(r"[0-9a-f]{64}", text) is not None


def reached_content(reached: StreamProgress) -> str:
    """Write how far a stream has come, as canonical text."""
    return json.dumps({"digest": reached.digest, "time": reached.time}, sort_keys=True, separators=(",", ":"))


def _fields(budget: Filter) -> list[object]:
    return [
        str(budget.epsilon),
        str(budget.delta),
        budget.order,
        None if budget.pure is None else str(budget.pure),
        budget.renyi,
        str(budget.approximate),
        budget.neighbours,
    ]


def _filter(fields: list[object]) -> Filter:
    epsilon, delta, order, pure, renyi, approximate, neighbours = fields
    if not isinstance(renyi, int) or not (order is None or isinstance(order, int)):
        raise ValueError("not the fields of a filter")
    return Filter(
        Fraction(str(epsilon)),
        Fraction(str(delta)),
        order,
        None if pure is None else Fraction(str(pure)),
        renyi,
        Fraction(str(approximate)),
        None if neighbours is None else Neighbours(str(neighbours)),
    )
