"""The second reader: it checks a ledger from its bytes, without the code that writes one.

It shares the meaning of an event and the filter's rule. Events are counted between two states and multiplied, and added
in their order only where denominators grow so long that the writer may have rounded a sum.
"""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from math import ceil, lcm
from pathlib import Path
from typing import Any

from sfumato.accounting.event import from_json, unordered
from sfumato.accounting.filter import MAX_DENOMINATOR, RENYI_UNITS, Filter
from sfumato.accounting.loss import PrivacyLoss
from sfumato.caches import remembered
from sfumato.errors import LedgerDamaged, LedgerUnavailable, Refusal
from sfumato.ledger.verified_windows import verified_window_start

_COLUMNS = "sequence, kind, time, account, question, sql, event, loss, policy, version, receipt, key, same, about"
_COLUMNS += ", content, head"
_FIRST = sha256(b"sfumato ledger, form 1").hexdigest()
_STATE_PLACES = 1000
_CHUNK_BYTES = 1 << 20
_RULE_OF_ANCHORS = r"([1-9][0-9]{0,17}) ([0-9a-f]{64}) ([0-9a-f]{64}|-)\n"


@dataclass(frozen=True, slots=True)
class Verified:
    """The contents of a whole ledger, after every hash and every sum was computed again."""

    entries: int
    head: str
    spent: PrivacyLoss
    """The dataset's share of its budget that is used."""


@dataclass(slots=True)
class _Account:
    epsilon: Fraction
    delta: Fraction
    order: int | None
    pure: Fraction | None = Fraction(0)
    renyi: int = 0
    approximate: Fraction = Fraction(0)
    neighbours: str | None = None
    every: str | None = None
    """How often the cap renews."""
    since: int = 0
    """When the window of these sums began, in microseconds since 1970."""
    recent: list[str] = field(default_factory=list)
    """The events since the sums were brought up to date, at most as many as there are entries between two states."""

    def filter(self) -> Filter:
        return Filter(self.epsilon, self.delta, self.order, self.pure, self.renyi, self.approximate)

    def bring_up_to_date(self) -> None:
        if not self.recent:
            return
        counted = Counter(self.recent)
        costs = {event: _once(self.epsilon, self.delta, self.order, event) for event in counted}
        pure = {event: cost.pure for event, cost in costs.items() if cost.pure is not None}
        known = self.pure if len(pure) == len(costs) else None
        self.pure = None if known is None else _total(known, pure, self.recent, counted)
        deltas = {event: cost.approximate for event, cost in costs.items()}
        self.approximate = _total(self.approximate, deltas, self.recent, counted)
        if self.order:
            self.renyi += sum(times * costs[event].renyi for event, times in counted.items())
        else:
            self.renyi = 0
        for cost in costs.values():
            self.neighbours = self.neighbours or (cost.neighbours and cost.neighbours.value)
        self.recent.clear()
        # sums only grow, so if the rule holds after the last charge under these caps it held after each of them
        capacity = self.filter().capacity
        fits = (self.pure is not None and self.pure <= self.epsilon) or (
            capacity is not None and self.renyi <= capacity
        )
        if self.approximate > self.delta / 2 or not fits:
            raise ValueError("more was spent than there is")

    def renew(self, time: int) -> bool:
        """Begin anew in a later window; a time that went back begins none. Return whether one began."""
        if self.every is not None and (start := verified_window_start(self.every, time)) > self.since:
            self.bring_up_to_date()
            self.pure, self.renyi, self.approximate, self.since = Fraction(0), 0, Fraction(0), start
            return True
        return False

    def raise_to(self, others: Sequence["_Account"]) -> None:
        """Take the largest of each sum."""
        pures = [account.pure for account in (self, *others) if account.pure is not None]
        self.pure = max(pures) if len(pures) == len(others) + 1 else None
        self.renyi = max(account.renyi for account in (self, *others))
        self.approximate = max(account.approximate for account in (self, *others))
        self.neighbours = self.neighbours or next(
            (account.neighbours for account in others if account.neighbours), None
        )

    def fields(self) -> list[object]:
        pure = None if self.pure is None else str(self.pure)
        return [
            str(self.epsilon), str(self.delta), self.order, pure, self.renyi, str(self.approximate), self.neighbours
        ]  # fmt: skip


def _total(start: Fraction, costs: dict[str, Fraction], events: Sequence[str], counted: Counter[str]) -> Fraction:
    """Add what events cost. With a short common denominator no partial sum was rounded, so the order is of no account.

    Otherwise each sum is taken as the writer takes it: a denominator beyond the limit is rounded up to 2^-64.
    """
    common = start.denominator
    for cost in costs.values():
        common = lcm(common, cost.denominator)
        if common > MAX_DENOMINATOR:
            break
    else:
        return start + sum((times * costs[event] for event, times in counted.items()), Fraction(0))
    for event in events:
        start += costs[event]
        if start.denominator > MAX_DENOMINATOR:
            start = Fraction(-(-start.numerator * RENYI_UNITS // start.denominator), RENYI_UNITS)
    return start


@remembered(4096)
def _once(epsilon: Fraction, delta: Fraction, order: int | None, event: str) -> Filter:
    """Return the cost of one event: an untouched budget after it. One that does not fit cannot have been accepted."""
    return Filter(epsilon, delta, order).charge(from_json(event))


def verify_file(path: Path) -> Verified:
    """Check a ledger file against its own chain, its sums, its anchor and its seal, or refuse."""
    try:
        known = _anchor(path)
        verified = _verify_file(path, known)
        if known is None and verified.entries > 1:
            raise _damage("It has entries, and its anchor is gone.")
        if (
            known is not None
            and known[2] is not None
            and known[0] == verified.entries
            and not _is_sealed(path, known[2])
        ):
            raise _damage("Its file is not the one that was closed last.")
        return verified
    except (sqlite3.DatabaseError, UnicodeError) as error:
        refusal: Refusal = _unreadable(error)
    except OSError:
        refusal = _unavailable()
    raise refusal from None


def _verify_file(path: Path, known: tuple[int, str, str | None] | None) -> Verified:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":  # the indexes, too
            raise _damage("Its pages do not hold together.")
        return verify_rows(connection.execute(f"SELECT {_COLUMNS} FROM entries ORDER BY sequence"), known)  # noqa: S608


def verify_rows(rows: Iterable[tuple[Any, ...]], known: tuple[int, str, str | None] | None) -> Verified:
    """Check rows from the first to the last, and that the row which the anchor knows is among them."""
    replay, head, count, latest, anchored = _Replay(), _FIRST, 0, 0, known is None
    try:
        for row in rows:
            count += 1
            head = sha256(_bytes(head, row)).hexdigest()
            if row[0] != count or row[-1] != head or (row[2] < latest and row[1] != "clock"):
                raise ValueError("not the next entry")
            if (count % _STATE_PLACES == 0) != (row[1] == "state"):
                raise ValueError("not where it belongs")
            latest = row[2]
            if known is not None and known[0] == count:
                anchored = known[1] == head
            replay.read(row)
        replay.bring_up_to_date()
        spent = replay.most_spent()
    except (Refusal, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        broken = True
    else:
        broken = False
    if broken:
        raise _damage(f"Entry {count} is not what was written, or what it says does not add up.")
    if not anchored:
        raise _damage("The entry that its anchor knows is missing or another: a part is lost.")
    return Verified(count, head, spent)


@dataclass(slots=True)
class _Replay:
    """What the rows so far add up to. Every method raises where a row cannot follow them."""

    accounts: dict[str, _Account] = field(default_factory=dict)
    unanswered: dict[str, int] = field(default_factory=dict)
    policy: str = ""
    tables: str = ""
    neighbours: str | None = None
    reached: dict[str, list[Any]] = field(default_factory=dict)
    restored: int = 0
    requests: dict[str, list[Any]] = field(default_factory=dict)
    """By their place: account, digest of the measurement, whether it is approved, number of notes."""
    granted: dict[str, int] = field(default_factory=dict)
    cohorts: dict[str, dict[str, _Account]] = field(default_factory=dict)
    """By cohort and name, the accounts of those that were charged apart."""
    kept: str = ""
    together: set[str] = field(default_factory=set)

    def read(self, row: tuple[Any, ...]) -> None:
        kind, same = row[1], row[12]
        if kind == "charged":
            self._read_charge(row)
        elif kind in ("settled", "failed"):
            if self.unanswered.pop(same) != row[13]:
                raise ValueError("no such charge")
        elif kind == "reached":
            self._read_reached(row[12], row[13], row[14])
        elif kind == "policy":
            self._read_policy(row[8], json.loads(row[14]), row[2])
        elif kind == "clock":
            if same or row[8] or row[13] or row[14]:
                raise ValueError("a clock entry with other contents")
        elif kind == "restored":
            self._read_restored(row)
        elif kind == "accepted":
            if not self.restored or row[13] != self.restored or not row[14]:
                raise ValueError("no restore that waits for this")
            self.restored, self.unanswered, self.reached, self.requests = 0, {}, {}, {}
        elif kind == "requested":
            self._read_request(row)
        elif kind in ("replied", "approved", "declined", "withdrawn"):
            self._read_decision(kind, row, json.loads(row[14]))
        elif kind != "state" or json.loads(row[14]) != self._sums():
            raise ValueError("other sums, or an unknown kind")

    def _read_charge(self, row: tuple[Any, ...]) -> None:
        sequence, _, time, account, question, _, event, _, policy, version, _, _, same, grant, _, _ = row
        if policy != self.policy or same in self.unanswered:
            raise ValueError("not a charge that may follow")
        if same != _named(account, question, version) and same != _named(account, question, policy, version):
            raise ValueError("not the question that it says")  # the policy belonged to it until version 0.1.0
        self.unanswered[same] = sequence
        if grant:
            whose, digest, approved, _ = self.requests.pop(str(grant))
            if approved is not True or [whose, digest] != [account, _grant_digest(account, question, event)]:
                raise ValueError("no grant for this measurement")
            self.granted[account] = self.granted.get(account, 0) + 1
        names = {""} if grant else {"", account}
        self._renew(names, time)
        self._charge(names, event, row[14])

    def _renew(self, names: Iterable[str], time: int) -> None:
        """Begin the windows that have come; a cohort then has the account of all others again."""
        begun = {name for name in names if self.accounts[name].renew(time)}
        if begun:
            left = ((cohort, {name: cap for name, cap in caps.items() if name not in begun}) for cohort, caps in
                    self.cohorts.items())  # fmt: skip
            self.cohorts = {cohort: caps for cohort, caps in left if caps}

    def _charge(self, names: Set[str], event: str, content: str) -> None:
        """Charge all people, or the cohorts that the charge names; under another assignment all begin at the most."""
        if not content:
            for caps in (self.accounts, *self.cohorts.values()):
                for name in names & caps.keys():
                    caps[name].recent.append(event)
            return
        data = json.loads(content)
        kept, paying = data.pop("kept"), data.pop("cohorts")
        if data or not kept or not paying or paying != sorted(set(paying)):
            raise ValueError("not the cohorts of a charge")
        if self.kept not in ("", kept):
            self.bring_up_to_date()
            for name, budget in self.accounts.items():
                budget.raise_to([caps[name] for caps in self.cohorts.values() if name in caps])
            self.cohorts = {}
        self.kept = kept
        for name in names:
            budget = self.accounts[name]
            if name in self.together:
                budget.recent.append(event)
                continue
            budget.bring_up_to_date()
            one = _once(budget.epsilon, budget.delta, budget.order, event)
            budget.neighbours = budget.neighbours or (one.neighbours and one.neighbours.value)
            for cohort in paying:
                own = self.cohorts.setdefault(cohort, {})
                own.setdefault(name, replace(budget, recent=[])).recent.append(event)

    def _read_request(self, row: tuple[Any, ...]) -> None:
        account, question, event, note = row[3], row[4], row[6], json.loads(row[14])
        if not account or account not in self.accounts or {*note} - {"roles"} != {"price", "reason"}:
            raise ValueError("not a request of an analyst")
        if bool(question) != bool(event):
            raise ValueError("half a measurement")
        digest = _grant_digest(account, question, event) if event else _rights_digest(account, row[5], note["price"])
        self.requests[str(row[0])] = [account, digest, False, 0]

    def _read_decision(self, kind: str, row: tuple[Any, ...], note: dict[str, Any]) -> None:
        """Follow a request: it is approved once, and gone after it was declined or withdrawn."""
        place = str(row[13])
        request = self.requests[place]
        for_rights = kind == "approved" and request[1].startswith("rights ")
        if for_rights != bool(row[4]) or for_rights != bool(row[6]) or for_rights != bool(note.get("names")):
            raise ValueError("rights are granted for one measurement, and nothing else is")
        if for_rights:
            request[1] = _grant_digest(request[0], row[4], row[6])
        if note["by"] not in (("analyst",) if kind == "withdrawn" else ("owner", "analyst")[: 1 + (kind == "replied")]):
            raise ValueError("not theirs to say")
        if kind == "replied":
            request[3] += 1
        elif kind == "approved" and request[2] is False:
            request[2] = True
        elif kind in ("declined", "withdrawn"):
            del self.requests[place]
        else:
            raise ValueError("approved twice")

    def _read_policy(self, name: str, data: dict[str, Any], time: int) -> None:
        spent = any(budget.recent or budget.neighbours for budget in self.accounts.values())
        if sha256(data["text"].encode()).hexdigest() != name or self.neighbours not in (None, data["neighbours"]):
            raise ValueError("not the policy that it says, or under another relation")
        if spent and data["tables"] != self.tables and data["confirmed"] is not True:
            raise ValueError("other tables without the owner's word")
        self.policy, self.tables, self.neighbours = name, data["tables"], data["neighbours"]
        every = self.accounts[""].every if "" in self.accounts else None
        if every is not None and spent and data.get("periods", {}).get("") != every:
            raise ValueError("another window of the dataset")
        self.bring_up_to_date()
        self._renew(self.accounts, time)
        self.together = set(data.get("together", ()))
        for account in self.together & self.accounts.keys():
            apart = [caps.pop(account) for caps in self.cohorts.values() if account in caps]
            self.accounts[account].raise_to(apart)
        self.cohorts = {cohort: caps for cohort, caps in self.cohorts.items() if caps}
        _apply(self.accounts, data)
        for caps in self.cohorts.values():
            _apply(caps, {**data, "caps": {name: cap for name, cap in data["caps"].items() if name in caps}})
        for account in data["caps"]:
            budget = self.accounts[account]
            known, budget.every = budget.every, data.get("periods", {}).get(account)
            begun = 0 if budget.every is None else verified_window_start(budget.every, time)
            budget.since = max(budget.since, begun) if known and budget.every else begun

    def _read_reached(self, same: str, place: int, content: str) -> None:
        """Follow a stream: it begins while its charge is open, and each entry is one step further."""
        found = re.fullmatch(r'\{"digest":"([0-9a-f]{64})","time":(0|[1-9][0-9]{0,17})\}', content)
        time = int(found[2]) if found else -1
        if found is None or time != self.reached.get(str(place), [-1])[0] + 1:
            raise ValueError("not the next step of a stream")
        if time == 0 and self.unanswered.get(same) != place:
            raise ValueError("a stream without a charge")
        self.reached[str(place)] = [time, found[1]]

    def _read_restored(self, row: tuple[Any, ...]) -> None:
        found = re.fullmatch(r'\{"backup":"([0-9a-f]{1,64})","missing":(0|[1-9][0-9]{0,17})\}', row[14])
        if found is None or not 0 < row[13] < row[0]:
            raise ValueError("not a restore")
        self.restored = row[0]

    def _sums(self) -> dict[str, object]:
        self.bring_up_to_date()
        cohorts = {
            cohort: {name: budget.fields() for name, budget in caps.items()} for cohort, caps in self.cohorts.items()
        }
        windows = {name: [budget.every, budget.since] for name, budget in self.accounts.items() if budget.every}
        return {
            "accounts": {name: budget.fields() for name, budget in self.accounts.items()},
            "neighbours": self.neighbours,
            "policy": self.policy,
            "tables": self.tables,
            "unanswered": self.unanswered,
            **({"reached": self.reached} if self.reached else {}),
            **({"restored": self.restored} if self.restored else {}),
            **({"requests": self.requests} if self.requests else {}),
            **({"granted": self.granted} if self.granted else {}),
            **({"windows": windows} if windows else {}),
            **({"together": sorted(self.together)} if self.together else {}),
            **({"kept": self.kept, "cohorts": cohorts} if self.kept else {}),
        }

    def bring_up_to_date(self) -> None:
        for caps in (self.accounts, *self.cohorts.values()):
            for budget in caps.values():
                budget.bring_up_to_date()

    def most_spent(self) -> PrivacyLoss:
        """Return what the fullest cohort of the dataset has spent."""
        filters = [caps[""].filter() for caps in (self.accounts, *self.cohorts.values()) if "" in caps]
        return max((cohort_filter.spent for cohort_filter in filters), key=lambda loss: loss.epsilon)


def _apply(accounts: dict[str, _Account], data: dict[str, Any]) -> None:
    """Put the caps of a policy into force: sums stay, and so does a Rényi order that was once fixed."""
    for name, (epsilon, delta) in data["caps"].items():
        order = data["orders"][name]
        budget = accounts.setdefault(name, _Account(Fraction(epsilon), Fraction(delta), order))
        if order is not None and budget.order is None:
            budget.renyi = ceil((budget.pure or Fraction(0)) * RENYI_UNITS)
        elif order != budget.order and budget.neighbours is not None:
            raise ValueError("another order after a charge")
        budget.epsilon, budget.delta, budget.order = Fraction(epsilon), Fraction(delta), order


def _bytes(head: str, row: tuple[Any, ...]) -> bytes:
    """Return what a row's head is the hash of: the head before, then each field behind its length in bytes.

    Written out, because a million rows shall not take long; text beyond ASCII takes the general way.
    """
    (sequence, kind, time, account, question, sql, event, loss,
     policy, version, receipt, key, same, about, content, _) = row  # fmt: skip
    place, when, target = str(sequence), str(time), str(about)
    opening = f"64:{head}{len(place)}:{place}{len(kind)}:{kind}{len(when)}:{when}"
    ending = f"{len(same)}:{same}{len(target)}:{target}{len(content)}:{content}"
    if kind == "charged":
        text = (
            f"{opening}{len(account)}:{account}{len(question)}:{question}{len(sql)}:{sql}{len(event)}:{event}"
            f"{len(loss)}:{loss}{len(policy)}:{policy}{len(version)}:{version}{len(receipt)}:{receipt}"
            f"{len(key)}:{key}{ending}"
        )
    elif kind in ("requested", "approved") and not (receipt or key):
        return _framed(head, *map(str, row[:-1]))
    elif account or question or sql or event or loss or version or receipt or key:
        raise ValueError("only charges have these")
    else:
        text = f"{opening}0:0:0:0:0:{len(policy)}:{policy}0:0:0:{ending}"
    raw = text.encode()
    return raw if len(raw) == len(text) else _framed(head, *map(str, row[:-1]))


def _grant_digest(account: str, question: str, event: str) -> str:
    """Return the digest of what a grant is for: account, question, and the event in any order of its parts."""
    return sha256(_framed(account, question, unordered(from_json(event)))).hexdigest()


def _rights_digest(account: str, sql: str, price: dict[str, Any]) -> str:
    """Return the digest of what a request for rights asks for: a text of an account, at a price."""
    return "rights " + sha256(_framed(account, sql, json.dumps(price, sort_keys=True))).hexdigest()


def _named(*fields: str) -> str:
    named = "".join(f"{len(field)}:{field}" for field in fields)
    raw = named.encode()
    return sha256(raw if len(raw) == len(named) else _framed(*fields)).hexdigest()


def _framed(*parts: str) -> bytes:
    texts = [part.encode() for part in parts]
    return b"".join([b"%d:%b" % (len(text), text) for text in texts])


def _anchor(path: Path) -> tuple[int, str, str | None] | None:
    """Read the anchor; a ledger of one entry may have none yet."""
    place, line = path.with_name(path.name + ".anchor"), b""
    try:
        while (again := place.read_bytes()) != line:  # a ledger in use may be writing it
            line = again
    except FileNotFoundError:
        return None
    found = re.fullmatch(_RULE_OF_ANCHORS, line.decode("ascii", "replace"))
    if found is None:
        raise _damage("Its anchor is not one line of sequence, head and seal.")
    return int(found[1]), found[2], None if found[3] == "-" else found[3]


def _is_sealed(path: Path, seal: str) -> bool:
    digest = sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest() == seal


def _damage(why: str) -> LedgerDamaged:
    return LedgerDamaged(
        "The ledger is damaged.",
        why,
        "Do not use it any more. Restore the ledger and its anchor from a backup that is as new as the last receipt.",
    )


def _unavailable() -> LedgerUnavailable:
    return LedgerUnavailable(
        "The ledger cannot be used now.", "Its file could not be read.", "Check disk and rights, and verify again."
    )


def _unreadable(error: Exception) -> Refusal:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL):
        return _unavailable()
    return _damage("Its file cannot be read as a ledger.")
