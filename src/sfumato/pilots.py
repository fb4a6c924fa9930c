"""Accuracy first where a margin depends on the data: pilot measurements set the price of the measurement that answers.

Each measurement is a charge of its own. What it costs depends on text, policy and what the ledger has stored, so the
state of a question lies in the ledger alone: asking again goes on where an attempt ended. Proof: proofs/pilots.md
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, inf, isnan, log2, nan

from sfumato.accounting.loss import PrivacyLoss, round_up
from sfumato.engines.engine import Engine
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.errors import Refusal, UnreachableMargin
from sfumato.exact import typed_rational
from sfumato.planning.accuracy_target import CONFIDENCE, column_origins
from sfumato.planning.margin_targets import (
    AccuracyGoal,
    MarginTarget,
    depends_on_data,
    margin_of_stages,
    read_targets,
)
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.planning.price_target import StoredPlanKey
from sfumato.planning.quote import Quote, margin_text
from sfumato.policy.policy import Policy, fold_name
from sfumato.prepare import Prepared, RequestedPrice
from sfumato.query.functions import Aggregation
from sfumato.query.types import NUMBERS
from sfumato.refining import source_answer
from sfumato.release.noisy import NoisyGroup, NoisyResult
from sfumato.release.receipt import Receipt
from sfumato.release.release import Release, make_release
from sfumato.stored_answer import answer_from_json
from sfumato.views import ViewFinder

PILOT_SHARES = (Fraction(1, 512), Fraction(1, 64), Fraction(1, 8))
"""The parts of the most that a question may cost which its pilot measurements cost, one after the other."""
_PLANNED_CONFIDENCE = Fraction(9, 10)
"""How surely the numbers of a pilot measurement are as large as the price of the answer assumes."""
_MAX_GUESS_RATIO = 2
"""A pilot measurement suffices where careful and plain guesses of the price differ by no more than this factor."""
_QUANTILE_WIDTH_FACTOR = 2.0
"""Ends of quantiles are taken for this much wider than they are expected, where the guess is careful."""
_MAX_PRICE_RATIO = 8
"""Ends of quantiles are not foreseen at more than this many times the price of a measurement."""
_BOUND_FACTOR = 4.0
"""Noise is taken for this much wider than expected where its bound is selected with the answer."""
_STEPS_PER_DOUBLING, _PRICE_STEPS = 8, 160
_MAX_SURPLUS_RATIO = 1.1
"""A search ends where the margin is at most this factor smaller than it has to be."""
_MAX_DECISIONS = 256
_DECISIONS: dict[object, "_Decision | None"] = {}
"""What pilot measurements decided, by receipt, question and goal: functions of what is stored, which never changes."""
_FALLBACK_SHARE = Fraction(9, 10)
"""Where margins cannot be reached, the answer costs this part of the last pilot measurement."""
_PILOTED_FUNCTIONS = frozenset(Aggregation) - {
    Aggregation.MODE,
    Aggregation.CROSS_UNIT_COUNT,
    Aggregation.MATCHED,
    Aggregation.BOUNDED_FLOW,
}
"""Quantities whose margins follow from noisy numbers, or scale with epsilon."""

Ratios = tuple[float, ...]
"""For each row how many times the margin is as wide as it should be, in the column where that is most."""


def source_within(
    sql: str,
    parameters: object,
    price: RequestedPrice,
    key: str | None,
    engine: Engine,
    finder: ViewFinder,
    account: str,
    policy: Policy,
) -> Prepared:
    """Return a question with what answers it; where its margins depend on the data, its next measurement.

    Theorem: whatever the pilot measurements say, everything is charged before it is measured, all measurements cost
    no more than the most that the quote names, and the intervals of the last one cover at their level, given the
    others.  Proof: proofs/pilots.md
    """
    try:
        return source_answer(sql, parameters, price, key, engine, finder, account, policy)
    except UnreachableMargin as refusal:
        if not depends_on_data(refusal):
            raise
        targets = read_targets(price.within)
    most = _max_epsilon(price, account, policy)

    def prepare(epsilon: Fraction, stored: StoredPlanKey | None = None) -> Prepared:
        wanted = RequestedPrice(epsilon, None, None, price.delta, stored)
        return finder.preparer.prepare(sql, parameters, wanted, key, engine)

    return _next_measurement(prepare, targets, most, finder)


def is_pilot(asked: Prepared) -> bool:
    """Whether a measurement only sets the price of the next one, which finds its numbers in the ledger."""
    return asked.price_target.goal is not None and asked.price_target.goal.is_pilot


def _max_epsilon(price: RequestedPrice, account: str, policy: Policy) -> Fraction:
    """Return the most epsilon that a question may cost: what was said beside its margins, or the account's cap."""
    analyst = policy.analyst(account) if account else None
    cap = policy.budget.epsilon if analyst is None else min(analyst.epsilon, policy.budget.epsilon)
    return cap if price.epsilon is None else min(cap, typed_rational(price.epsilon, "epsilon"))


def _next_measurement(
    prepare: Callable[..., Prepared], targets: tuple[MarginTarget, ...], most: Fraction, finder: ViewFinder
) -> Prepared:
    whole = prepare(most)
    most = whole.price_target.epsilon or most  # the text's OPTIONS may say less
    _check_targets(whole.plan, targets)
    goal = AccuracyGoal(targets, most, Fraction(0), is_pilot=True)
    costs = [_three_digits(most * share) for share in PILOT_SHARES]
    for cost, following in zip(costs, (*costs[1:], None), strict=True):
        pilot = prepare(cost)
        stored = _find_stored(pilot, finder)
        if stored is None:
            return _with_goal(pilot, goal)
        goal = replace(goal, paid=goal.paid + cost)
        search = _Search(pilot, *answer_from_json(stored, pilot), cost, targets, most - goal.paid, prepare)
        if (found := search.remembered(following)) is not None:
            answer = _fresh_answer(search, found.price, costs, finder)
            answer = replace(answer, paid=_is_paid(answer, finder))
            return _with_goal(answer, replace(goal, is_pilot=False, unreachable=found.unreachable))
    raise AssertionError("the last pilot measurement decides")


def _three_digits(value: Fraction | float) -> Fraction:
    return Fraction(f"{float(value):.3g}")


def _unlike(price: Fraction, costs: Sequence[Fraction]) -> Fraction:
    """Return a price at which nothing was measured before: an answer has noise of its own."""
    while price in costs:
        price = price * Fraction(99, 100)
    return price


def _fresh_answer(search: "_Search", price: Fraction, costs: Sequence[Fraction], finder: ViewFinder) -> Prepared:
    """Return the question at about this price, with noise that was not drawn given that of a pilot measurement."""
    while True:
        price = _unlike(price, costs)
        answer = search.prepared_at(price)
        stored = _find_stored(answer, finder)
        if stored is None or not answer_from_json(stored, answer)[1].refines:
            return answer
        price *= Fraction(99, 100)


def _with_goal(asked: Prepared, goal: AccuracyGoal) -> Prepared:
    return replace(asked, price_target=replace(asked.price_target, goal=goal))


def _accounts(finder: ViewFinder) -> Sequence[str]:
    return finder.ledger.accounts() if finder.account is None else (finder.account,)


def _find_stored(asked: Prepared, finder: ViewFinder) -> str | None:
    """Return the release of exactly this measurement, where it is stored."""
    names = (asked.fingerprint, *asked.names.older)
    found = (
        finder.ledger.stored(account, name, asked.engine.version) for account in _accounts(finder) for name in names
    )
    return next((release for release in found if release is not None), None)


def _is_paid(asked: Prepared, finder: ViewFinder) -> bool:
    names, event = (asked.fingerprint, *asked.names.older), asked.plan.event
    return event is not None and any(
        finder.ledger.is_paid(account, names, asked.engine.version, event) for account in _accounts(finder)
    )


def _check_targets(plan: Plan, targets: tuple[MarginTarget, ...]) -> None:
    """Refuse a column whose margin no measurement tells, before anything is charged."""
    made = {
        (group.group.label, output.name): [step for name in output.measured for step in group.steps_of(name)]
        for group in plan.groups
        for output in group.derived
    }
    functions = {
        (group.group.label, output.name): output.quantity.function
        for group in plan.groups
        for output in group.all_outputs
    }
    columns = zip(plan.private.names, plan.private.outcome.items, strict=True)
    kinds = {fold_name(name): item.scalar.facts.type for name, item in columns}
    for target in targets:
        if plan.private.first:
            raise margin_of_stages(target.name)
        for origin in column_origins(plan.private, target.name):
            used = [(label, part) for label, name in origin.sources for part in made.get((label, name), ())]
            if (
                not used
                or kinds[fold_name(target.name)] not in NUMBERS
                or any(functions.get(column) not in _PILOTED_FUNCTIONS for column in used)
            ):
                raise UnreachableMargin(
                    f"The margin of `{target.name}` cannot be asked for.",
                    "It is no noisy number, or its noise is found privately with the answer.",
                    "Name counts, sums, averages, deviations, quantiles or computations with them in `within`.",
                )


@dataclass(frozen=True, slots=True)
class _Decision:
    """The price of the measurement that answers, and why it will miss the margins, where that is foreseen."""

    price: Fraction
    unreachable: str = ""


_NO_DECISION = _Decision(Fraction(0))


@dataclass(frozen=True, slots=True)
class _Search:
    """Looks for the least price at which margins are expected to be reached, by the numbers of a pilot measurement.

    It is post-processing. A wrong guess costs accuracy or epsilon, never privacy, so floats may decide.
    """

    pilot: Prepared
    noisy: NoisyResult
    receipt: Receipt
    cost: Fraction
    targets: tuple[MarginTarget, ...]
    left: Fraction
    prepare: Callable[..., Prepared]

    def remembered(self, following: Fraction | None) -> _Decision | None:
        """Return what was decided before, or decide."""
        key = self.receipt.id, self.pilot.fingerprint_digest, self.pilot.texts, self.targets, self.left, following
        if (found := _DECISIONS.get(key, _NO_DECISION)) is _NO_DECISION:  # another thread may forget all of them
            found = self.decide(following)
            if len(_DECISIONS) >= _MAX_DECISIONS:
                _DECISIONS.clear()
            _DECISIONS[key] = found
        return found

    def decide(self, following: Fraction | None) -> _Decision | None:
        """Return what to measure next; None for another pilot measurement, which costs `following`."""
        best = self._ratios(self.left, 1)
        rows = {index for index, ratio in enumerate(best) if ratio <= 1}
        if not rows:
            return self._fallback()
        plain, careful = self._min_price(0, rows), self._min_price(-1, rows)
        if careful is not None and plain is not None and careful <= max(_MAX_GUESS_RATIO * plain, self.cost):
            return _Decision(careful)
        if following is not None and (plain is None or following < plain / 2):
            return None
        if careful is not None:
            return _Decision(careful)
        if plain is not None:
            return _Decision(min(self.left, _three_digits(_MAX_GUESS_RATIO * plain)))
        reached = {index for index, ratio in enumerate(self._ratios(self.left, 0)) if ratio <= 1}
        some = self._min_price(0, reached) if reached else None
        return self._fallback() if some is None else _Decision(some)

    def prepared_at(self, price: Fraction) -> Prepared:
        """Return the question at a price, with the plan that is foreseen for it."""
        found = self.prepare(price)
        for plan, names in found.plans:
            if plan.event is not None and _shape(plan) == _shape(self.pilot.plan):
                return self.prepare(
                    price, StoredPlanKey(plan.event, None, replace(found, names=names).fingerprint_digest)
                )
        return found

    def _fallback(self) -> _Decision:
        worst = max(self._ratios(self.left, 0), default=inf)
        about = (
            f" It would cost about ε = {round_up(_three_digits(self.left * Fraction(worst)))}." if worst < inf else ""
        )
        why = f"At most ε = {round_up(self.left)} can be spent on it.{about}"
        return _Decision(_three_digits(self.cost * _FALLBACK_SHARE), why)

    def _min_price(self, care: int, rows: set[int]) -> Fraction | None:
        """Return nearly the least price at which these rows are expected to reach their margins; None for none."""

        def worst(step: int) -> float:
            ratios = self._ratios(self._price(step), care)
            return max((ratios[index] for index in rows if index < len(ratios)), default=inf)

        dear, cheap = 0, _PRICE_STEPS
        if (ratio := worst(dear)) > 1:
            return None
        guess = dear
        while cheap - dear > 1:
            # margins are about inverse to the price; where that leads nowhere, the interval is halved
            guess += floor(_STEPS_PER_DOUBLING * log2(1 / ratio)) if 0 < ratio < inf else 0
            guess = guess if dear < guess < cheap else (dear + cheap) // 2
            ratio = worst(guess)
            dear, cheap = (guess, cheap) if ratio <= 1 else (dear, guess)
            if 1 / _MAX_SURPLUS_RATIO < ratio <= 1:
                break
        return self._price(dear)

    def _price(self, step: int) -> Fraction:
        price = _three_digits(float(self.left) * 2 ** (-step / _STEPS_PER_DOUBLING))
        return min(price, self.left)

    def _ratios(self, price: Fraction, care: int) -> Ratios:
        """Return the expected ratios at a price: with care -1 numbers are smaller than measured, with 1 larger."""
        try:
            asked = self.prepare(price)
        except Refusal:
            return ()
        plan = next((plan for plan, _ in asked.plans if _shape(plan) == _shape(self.pilot.plan)), None)
        if plan is None:
            return ()
        found = [
            self._ratios_of(plan, numbers, price, care) for numbers in _shift_numbers(self.pilot.plan, self.noisy, care)
        ]
        return tuple(map(max, zip(*found, strict=False)))

    def _ratios_of(self, plan: Plan, numbers: NoisyResult, price: Fraction, care: int) -> Ratios:
        release = make_release(plan, numbers, self.receipt, evaluate)
        wider = {target: self._expected_ratio(target, price, care) for target in self.targets}
        ratios = [list(map(expected, _target_ratios(release, plan, target))) for target, expected in wider.items()]
        return tuple(map(max, zip(*ratios, strict=True)))

    def _expected_ratio(self, target: MarginTarget, price: Fraction, care: int) -> Callable[[float], float]:
        """Return what a ratio is expected to be, from the one that the pilot's numbers have at this price.

        Ends of quantiles are chosen with the answer, and change inversely to the price. An interval that does not hold
        the value, because the value is beyond what is possible, tells nothing: it is hoped for, or feared.
        """
        unknown = inf if care <= 0 else 0.0
        factor, farthest = 1.0, inf
        if self._is_chosen(target):
            factor = float(self.cost / price) * _QUANTILE_WIDTH_FACTOR**-care
            farthest = _MAX_PRICE_RATIO if care else inf
        elif any(
            measurement.candidates is not None for group in self.pilot.plan.groups for measurement in group.measured
        ):
            factor = _BOUND_FACTOR**-care

        def expected(ratio: float) -> float:
            return unknown if isnan(ratio) or ratio > farthest else ratio * factor

        return expected

    def _is_chosen(self, target: MarginTarget) -> bool:
        """Whether a column depends on what is chosen with its ends."""
        groups = self.pilot.plan.groups
        chosen = {(group.group.label, selection.name) for group in groups for selection in group.chosen}
        made = {(group.group.label, output.name): output.measured for group in groups for output in group.derived}
        sources = (
            source for origin in column_origins(self.pilot.plan.private, target.name) for source in origin.sources
        )
        return any((label, part) in chosen for label, name in sources for part in made.get((label, name), ()))


def _shape(plan: Plan) -> object:
    """Return what has to agree for the numbers of one plan to be read as those of another."""
    return [
        (
            group.group.label,
            type(group.selection),
            [output.name for output in group.all_outputs],
            group.selecting_measurement,
        )
        for group in plan.groups
    ], len(plan.tables)


def _shift_numbers(plan: Plan, noisy: NoisyResult, care: int) -> list[NoisyResult]:
    """Return noisy numbers as they may be without their noise: smaller for -1, in two ways, and larger for 1.

    Where rows are counted, all numbers of a cell change alike, so that averages stay as they are; or each by itself.
    """
    if not care:
        return [noisy]
    pairs = list(zip(plan.groups, noisy.groups, strict=True))
    return [
        replace(noisy, groups=tuple(_moved_group(*pair, care, alike=alike) for pair in pairs))
        for alike in ((True, False) if care < 0 else (True,))
    ]


def _moved_group(group: GroupPlan, noisy: NoisyGroup, care: int, *, alike: bool) -> NoisyGroup:
    if group.is_bound_selection:
        return noisy
    reach = {measurement.name: measurement.mechanism.margin(_PLANNED_CONFIDENCE) for measurement in group.measured}
    counts = [measurement.name for measurement in group.measured if measurement.quantity.function is Aggregation.COUNT]
    columns = dict(noisy.columns)
    numbers = [name for name in reach if not any(isinstance(value, tuple) for value in columns[name])]
    leading = next((name for name in counts if name in numbers), None) if alike else None
    changed = {name: list(noisy.numbers(name)) for name in numbers}
    for cell in range(len(noisy.keys)):
        if leading is None:
            for name in numbers:
                changed[name][cell] = _towards(changed[name][cell], care * reach[name])
            continue
        count = changed[leading][cell]
        wanted = max(count + care * reach[leading], 0 if care < 0 else reach[leading])
        for name in numbers if count > 0 else (leading,):
            changed[name][cell] = wanted if name == leading else changed[name][cell] * wanted // count
    shown = tuple((name, tuple(changed[name]) if name in changed else values) for name, values in noisy.columns)
    return replace(noisy, columns=shown)


def _towards(value: int, change: int) -> int:
    size = max(abs(value) + change, 0)
    return size if value >= 0 else -size


def _target_ratios(release: Release, plan: Plan, target: MarginTarget) -> list[float]:
    """Return for each row how many times the margin of a column is as wide as it should be.

    NaN where the interval does not hold the value, or is a point though there is noise: what is possible ends there.
    """
    names = [shown for shown, name in zip(release.columns, plan.private.names, strict=True) if _is_named(name, target)]
    rows = zip(release.rows(), release.intervals(CONFIDENCE), strict=True)
    exact = _is_exact(plan, target)
    found = ([_ratio(row[name], ends[name], target, exact=exact) for name in names] for row, ends in rows)
    return [nan if any(map(isnan, ratios)) else max(ratios) for ratios in found]


def _is_named(name: str, target: MarginTarget) -> bool:
    return fold_name(name) == fold_name(target.name)


def _is_exact(plan: Plan, target: MarginTarget) -> bool:
    """Whether the noise of all that a column is made of is 0, as surely as its interval has to hold."""
    groups = {group.group.label: group for group in plan.groups}
    made = {(label, output.name): output.measured for label, group in groups.items() for output in group.derived}
    sources = {source for origin in column_origins(plan.private, target.name) for source in origin.sources}
    used = {
        (label, step) for label, name in sources for part in made[label, name] for step in groups[label].steps_of(part)
    }
    laws = {
        (label, measurement.name): measurement.mechanism
        for label, group in groups.items()
        for measurement in group.measured
        if measurement.candidates is None
    }
    return used <= laws.keys() and not any(laws[column].margin(CONFIDENCE) for column in used)


def _ratio(value: object, ends: object, target: MarginTarget, *, exact: bool) -> float:
    if not isinstance(value, int | float) or not isinstance(ends, tuple) or None in ends:
        return inf
    low, high = ends
    if not low <= value <= high or (low == high and not exact):
        return nan
    allowed = float(target.amount) * (abs(float(value)) if target.relative else 1.0)
    return float(max(high - value, value - low)) / allowed if allowed else inf


def with_goal_note(release: Release, asked: Prepared) -> Release:
    """Return an answer that says whether it has the margins that it was asked for."""
    goal, plan = asked.price_target.goal, asked.plan
    if goal is None or goal.is_pilot:
        return release
    return replace(release, noted=release.noted.after([_verdict(release, plan, goal)]))


def _verdict(release: Release, plan: Plan, goal: AccuracyGoal) -> str:
    paid = f"First measurements cost ε = {round_up(goal.paid)} more."
    names = ", ".join(map(str, goal.targets))
    found = {target: _target_ratios(release, plan, target) for target in goal.targets}
    missed = {target: [ratio for ratio in ratios if not ratio <= 1] for target, ratios in found.items()}
    if not any(missed.values()):
        return f"Reached at 95 %: {names}. {paid}"
    rows = len(release)
    target, ratios = next((target, ratios) for target, ratios in missed.items() if ratios)
    where = f" in {len(ratios):,} of {rows:,} rows" if rows > 1 else ""
    worst = max((inf if isnan(ratio) else ratio for ratio in ratios), default=inf)
    width = "" if worst == inf else f" The margin is {margin_text(worst)} times as wide."
    why = goal.unreachable or "The answer has more noise than the first measurements suggested."
    return f"Not reached: {target}{where}.{width} {why} {paid}"


def piloted_quote(quote: Quote, asked: Prepared) -> Quote:
    """Return the quote of a measurement with what all measurements of its question cost at most."""
    goal = asked.price_target.goal
    if goal is None:
        return quote
    price = asked.price_target.epsilon or Fraction(0)
    delta = asked.plan.loss.delta * (len(PILOT_SHARES) + 1)
    most = PrivacyLoss(goal.most, delta) if goal.is_pilot else None
    return replace(quote, most=most, notes=(goal.note(price), *quote.notes))
