"""Cohorts in the ledger: each has a filter of its own, and no person is charged less than what they could lose."""

from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from tests.ledger.accounts import policy_in, pure, request_for, require_read_back

from sfumato.accounting.event import Event, GaussianNoise, Neighbours
from sfumato.accounting.filter import Filter
from sfumato.errors import BudgetExhausted, LedgerUnavailable
from sfumato.ledger import transaction
from sfumato.ledger.cohorts import PayingCohorts
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import open_ledger
from sfumato.policy.policy import Policy

NAMES = ("north", "south", "other")
KEPT = "first"


def _ask(
    ledger: Ledger, policy: Policy, question: str, event: Event, cohorts: PayingCohorts | None, account: str = ""
) -> None:
    request = request_for(policy, question, event, account=account, cohorts=cohorts)
    with ledger.charge(request) as charge:
        charge.settle("answered")


def _paying(*names: str, kept: str = KEPT) -> PayingCohorts:
    return PayingCohorts(kept, tuple(sorted(names)))


def test_a_cohort_pays_for_itself_alone(tmp_path: Path) -> None:
    policy = policy_in(tmp_path, 1)
    ledger = open_ledger(policy)
    for cohort in NAMES:
        _ask(ledger, policy, f"about {cohort}", pure("0.75"), _paying(cohort))
        with pytest.raises(BudgetExhausted, match=f"the cohort {cohort} of the dataset has 25 %"):
            _ask(ledger, policy, f"more about {cohort}", pure("0.5"), _paying(cohort))
    with pytest.raises(BudgetExhausted):
        _ask(ledger, policy, "about all", pure("0.5"), _paying(*NAMES))
    _ask(ledger, policy, "a little about all", pure("0.25"), _paying(*NAMES))
    _ask(ledger, policy, "about those who came later", pure("1"), _paying("west"))
    with pytest.raises(BudgetExhausted):  # who is not named by a charge pays for it, too
        _ask(ledger, policy, "without cohorts", pure("0.01"), None)
    budget = ledger.budget("", _paying(*NAMES, "east"))
    assert {name: one.used for name, one in budget.cohorts.items()} == {**dict.fromkeys(NAMES, 1), "east": 0}
    assert budget.used == 1
    ledger.verify()
    ledger.close()


EVENTS: tuple[Event, ...] = (
    pure("0.1"),
    pure("0.03"),
    GaussianNoise(1, Fraction(900), Neighbours.ADD_REMOVE),
)


@pytest.mark.parametrize("seed", range(6))
def test_no_person_is_charged_less_than_they_could_lose(tmp_path: Path, seed: int) -> None:
    """Random charges of two accounts, under assignments that are lost and drawn again, against a filter per person."""
    random = Random(seed)
    delta = "1e-6" if seed % 2 else 0
    policy = policy_in(tmp_path, 1, delta, analysts={"research": {"epsilon": "0.5"}})
    ledger, kept = open_ledger(policy), KEPT
    lost = {name: Filter(Fraction(1), policy.budget.delta) for name in range(12)}
    home = {name: random.choice(NAMES) for name in lost}
    for place in range(60):
        if random.random() < 0.1:  # the file of the assignment is lost: people may come into other cohorts
            kept = f"assignment {place}"
            home = {name: random.choice(NAMES) for name in lost}
        event = random.choice(EVENTS[: 3 if delta else 2])
        some = random.sample(NAMES, random.choice((1, 1, 2, 3)))
        paying = None if random.random() < 0.15 else _paying(*some, kept=kept)
        try:
            _ask(ledger, policy, f"q{place}", event, paying, random.choice(("", "research")))
        except BudgetExhausted:
            continue
        for name, cohort in home.items():
            if paying is None or cohort in paying.names:
                lost[name] = lost[name].charge(event)  # refused where the budget is broken
    for name, one in lost.items():
        shown = ledger.account("", _paying(home[name], kept=kept))
        assert shown.renyi >= one.renyi
        assert shown.pure is None or one.pure is None or shown.pure >= one.pure
    ledger.verify()
    require_read_back(ledger)
    ledger.close()


def test_sums_of_cohorts_are_read_back_from_state_rows(tmp_path: Path) -> None:
    policy = policy_in(tmp_path, 10**6, analysts={"research": {"epsilon": 10**5}})
    ledger = open_ledger(policy)
    for place in range(20):
        paying = (None, _paying("north"), _paying("north", "south"))[place % 3]
        _ask(ledger, policy, f"q{place}", pure(1), paying, ("", "research")[place % 2])
    changed = policy_in(tmp_path, 10**6 + 1, analysts={"research": {"epsilon": 10**5}})
    ledger.close()
    ledger = open_ledger(changed)
    _ask(ledger, changed, "one more", pure(1), _paying("north"))
    require_read_back(ledger)
    assert ledger._state.cohorts["north"][""].epsilon == 10**6 + 1
    ledger.verify()
    ledger.close()


@pytest.mark.parametrize(
    "content",
    ['{"cohorts":[],"kept":"a"}', '{"cohorts":["b","a"],"kept":"a"}', '{"kept":"a"}', "[]", '{"cohorts":["a"]}'],
)
def test_a_charge_that_says_its_cohorts_in_another_way_is_damage(
    tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = policy_in(tmp_path, 1)
    ledger = open_ledger(policy)
    monkeypatch.setattr(transaction, "cohorts_content", lambda paying: content)
    with pytest.raises(LedgerUnavailable):
        _ask(ledger, policy, "forged", pure("0.1"), _paying("north"))
    ledger.close()


def test_a_charge_is_taken_up_for_the_people_who_paid_alone(tmp_path: Path) -> None:
    """The attempt ended before its answer: asked about other people, or under another assignment, it costs again."""
    policy = policy_in(tmp_path, 1)
    ledger = open_ledger(policy)
    places = []
    for paying in (_paying("north"), _paying("north"), _paying("south"), _paying("south", kept="second"), None):
        with ledger.charge(request_for(policy, "the same", pure("0.125"), cohorts=paying)) as charge:
            places.append(charge.sequence)
    assert places[0] == places[1]
    assert len(set(places)) == 4
    ledger.verify()
    ledger.close()


def test_what_is_spent_is_of_the_cohort_that_lost_most(tmp_path: Path) -> None:
    """One cohort has less left, and another has lost more: neither number falls when they are charged in turn."""
    policy = policy_in(tmp_path, 3, "1e-6")
    ledger, everyone = open_ledger(policy), _paying(*NAMES)
    before = ledger.budget("", everyone)
    for cohort, losses in (("north", ["0.01"] * 60), ("south", ["0.5"])):
        for at, loss in enumerate(losses):
            foreseen = ledger.effect_of(pure(loss), "", paying=_paying(cohort)).spent
            _ask(ledger, policy, f"{cohort} {at}", pure(loss), _paying(cohort))
            assert foreseen == ledger.budget("", _paying(cohort)).spent
        budget = ledger.budget("", everyone)
        assert budget.spent.epsilon == max(one.spent.epsilon for one in budget.cohorts.values())
        assert budget.remaining.epsilon == min(one.remaining.epsilon for one in budget.cohorts.values())
        assert budget.spent.epsilon >= before.spent.epsilon
        assert budget.used >= before.used
        before = budget
    assert ledger.budget().spent.epsilon == before.spent.epsilon == Fraction(6, 10)
    ledger.close()


def test_cohorts_share_the_cap_of_an_analyst_where_the_policy_says_so(tmp_path: Path) -> None:
    analysts = {"research": {"epsilon": 1, "cohorts": "together"}, "press": {"epsilon": 1}}
    policy = policy_in(tmp_path, 2, analysts=analysts)
    ledger = open_ledger(policy)
    for account in ("research", "press"):
        _ask(ledger, policy, f"{account} about the north", pure("0.75"), _paying("north"), account)
    with pytest.raises(BudgetExhausted, match="25 %"):
        _ask(ledger, policy, "about the south", pure("0.5"), _paying("south"), "research")
    _ask(ledger, policy, "press about the south", pure("0.5"), _paying("south"), "press")
    _ask(ledger, policy, "a little about the south", pure("0.25"), _paying("south"), "research")
    shown = ledger.budget("research", _paying(*NAMES))
    assert {shown.used, *(one.used for one in shown.cohorts.values())} == {Fraction(1)}
    assert ledger.budget("press", _paying(*NAMES)).cohorts["other"].used == 0
    assert {name: one.used for name, one in ledger.budget("", _paying(*NAMES)).cohorts.items()} == {
        "north": Fraction(3, 4),
        "south": Fraction(3, 8),
        "other": 0,
    }
    ledger.verify()
    require_read_back(ledger)
    ledger.close()


@pytest.mark.parametrize("seed", range(4))
def test_no_analyst_learns_more_about_a_person_than_their_cap(tmp_path: Path, seed: int) -> None:
    """Random charges under policies that change between both kinds of caps, and assignments that are lost."""
    random = Random(seed)
    delta = "1e-6" if seed % 2 else 0
    kinds = ("each", "together")

    def under(kind: str) -> Policy:
        return policy_in(tmp_path, 5, delta, analysts={"research": {"epsilon": "0.5", "cohorts": kind}})

    policy, kept = under(kinds[0]), KEPT
    ledger = open_ledger(policy)
    learnt = {name: Filter(Fraction(1, 2), policy.analysts[0].delta) for name in range(12)}
    home = {name: random.choice(NAMES) for name in learnt}
    for place in range(60):
        if random.random() < 0.1:
            kept, home = f"assignment {place}", {name: random.choice(NAMES) for name in learnt}
        if random.random() < 0.1:
            ledger.close()
            policy = under(random.choice(kinds))
            ledger = open_ledger(policy)
        event = random.choice(EVENTS[: 3 if delta else 2])
        paying = None if random.random() < 0.15 else _paying(*random.sample(NAMES, random.choice((1, 2))), kept=kept)
        try:
            _ask(ledger, policy, f"q{place}", event, paying, "research")
        except BudgetExhausted:
            continue
        for name, cohort in home.items():
            if paying is None or cohort in paying.names:
                learnt[name] = learnt[name].charge(event)  # refused where the cap is broken
    ledger.verify()
    require_read_back(ledger)
    ledger.close()


def test_one_cap_for_all_cohorts_counts_every_charge_once(tmp_path: Path) -> None:
    policy = policy_in(tmp_path, 9, analysts={"research": {"epsilon": 3, "cohorts": "together"}})
    ledger = open_ledger(policy)
    for place, paying in enumerate((_paying("north"), _paying("north", "south"), None, _paying(*NAMES))):
        _ask(ledger, policy, f"q{place}", pure("0.5"), paying, "research")
    assert ledger.account("research", _paying("other")).pure == 2
    assert ledger.account("", _paying("other")).pure == 1
    ledger.verify()
    ledger.close()
