"""The parts of a policy in the ledger: the privacy unit, the neighbouring databases, and how much may be spent."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from math import ceil

from sfumato.accounting.event import Neighbours
from sfumato.accounting.filter import RENYI_UNITS, Filter
from sfumato.errors import BadPolicy
from sfumato.ledger.chain import Row
from sfumato.policy.canonical import canonical_text, policy_hash, tables_hash
from sfumato.policy.policy import CohortCap, Period, Policy, fold_name

DATASET = ""
"""The account that everything is charged to."""


@dataclass(frozen=True, slots=True)
class RecordedPolicy:
    """One policy as a row holds it. The text says everything; the other fields are what the ledger decides by."""

    hash: str
    tables: str
    neighbours: Neighbours
    text: str
    caps: Mapping[str, tuple[Fraction, Fraction]]
    """Epsilon and delta of the dataset and of each analyst, by folded name."""
    orders: Mapping[str, int | None]
    """The Rényi order of each account. It is fixed when the account is opened and stays when a cap is changed."""
    confirmed: bool
    """The owner said explicitly that this policy may follow one with other tables."""
    periods: Mapping[str, Period] = field(default_factory=dict)
    """By folded name, how often the caps of accounts renew that do."""
    together: frozenset[str] = frozenset()
    """The folded names of accounts whose caps all cohorts share."""


def recorded(policy: Policy, accounts: Mapping[str, Filter], confirmed: bool) -> RecordedPolicy:
    """Return what will be recorded of this policy, in a ledger that holds these accounts."""
    caps = {DATASET: (policy.budget.epsilon, policy.budget.delta)}
    caps |= {fold_name(analyst.name): (analyst.epsilon, analyst.delta) for analyst in policy.analysts}
    opened = {name: Filter(epsilon, delta) for name, (epsilon, delta) in caps.items()}
    for name, budget in opened.items():
        _refuse_lost_delta(name, budget, accounts.get(name))
    orders = {
        name: accounts[name].order if budget.order and name in accounts and accounts[name].order else budget.order
        for name, budget in opened.items()
    }
    periods = {fold_name(analyst.name): analyst.every for analyst in policy.analysts if analyst.every is not None}
    if policy.budget.every is not None:
        periods[DATASET] = policy.budget.every
    text = canonical_text(policy)
    together = frozenset(
        fold_name(analyst.name) for analyst in policy.analysts if analyst.cohorts is CohortCap.TOGETHER
    )
    return RecordedPolicy(
        policy_hash(policy), tables_hash(policy), policy.neighbours, text, caps, orders, confirmed, periods, together
    )


def with_caps(accounts: Mapping[str, Filter], policy: RecordedPolicy) -> dict[str, Filter]:
    """Return the accounts under the caps of a policy. Sums stay; who is no longer named keeps the account as it is."""
    changed = dict(accounts)
    for name, (epsilon, delta) in policy.caps.items():
        order = policy.orders[name]
        before = accounts.get(name, Filter(epsilon, delta, order))
        renyi = before.renyi
        if order is not None and before.order is None:
            # every event so far was pure, and an ε-DP release has Rényi loss at most ε at every order [BS16, Prop. 10]
            renyi = ceil((before.pure or Fraction(0)) * RENYI_UNITS)
        changed[name] = Filter(epsilon, delta, order, before.pure, renyi, before.approximate, before.neighbours)
    return changed


def policy_text(policy: RecordedPolicy) -> str:
    """Write a recorded policy as canonical text."""
    data: dict[str, object] = {
        "caps": {name: [str(epsilon), str(delta)] for name, (epsilon, delta) in policy.caps.items()},
        "confirmed": policy.confirmed,
        "neighbours": policy.neighbours.value,
        "orders": dict(policy.orders),
        "tables": policy.tables,
        "text": policy.text,
    }
    if policy.periods:  # a policy whose caps do not renew is written as it always was
        data["periods"] = {name: every.value for name, every in policy.periods.items()}
    if policy.together:
        data["together"] = sorted(policy.together)
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def from_content(content: str) -> RecordedPolicy:
    """Read a recorded policy; KeyError, TypeError or ValueError where it is none."""
    data = json.loads(content)
    return RecordedPolicy(
        sha256(data["text"].encode()).hexdigest(),
        data["tables"],
        Neighbours(data["neighbours"]),
        data["text"],
        {name: (Fraction(epsilon), Fraction(delta)) for name, (epsilon, delta) in data["caps"].items()},
        data["orders"],
        data["confirmed"],
        {name: Period(every) for name, every in data.get("periods", {}).items()},
        frozenset(map(str, data.get("together", ()))),
    )


def name_of(row: Row) -> str:
    """Return what the dataset of a recorded policy is called; KeyError, TypeError or ValueError where it is none."""
    return str(tomllib.loads(json.loads(row.content)["text"])["name"])


def _refuse_lost_delta(name: str, opened: Filter, before: Filter | None) -> None:
    """Refuse a delta of 0 after releases with one: they have no pure loss, and no sum could be continued."""
    if before is None or before.order is None or opened.order is not None or before.neighbours is None:
        return
    key = f"analysts.{name}.delta" if name else "budget.delta"
    raise BadPolicy(
        f"{key} = 0 comes after releases that were charged against a delta.",
        "What they cost cannot be restated without one.",
        f"Leave {key} positive; lower the epsilon to stop further releases.",
    )
