"""From a private query and a wish to a plan: everything is decided here, before any data is read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss, delta_or_zero, round_down, round_up
from sfumato.analysis.keys import MAX_GROUP_CELLS
from sfumato.analysis.private_query import Group, PrivateQuery
from sfumato.errors import BadParameter, KeysNeedDelta, LoosenedPolicy, Setting, UnreachableMargin, quote_value
from sfumato.exact import positive, power_of_two_below, typed_rational, typed_share
from sfumato.language.rel_nodes import LimitNode, ProjectNode, nodes
from sfumato.language.scalar import address
from sfumato.planning.accuracy_target import noise_within
from sfumato.planning.aggregates.average import AverageColumn
from sfumato.planning.bounding.selection import price_selections
from sfumato.planning.budget_share import Share, noise_for
from sfumato.planning.column_origins import origins, shown_unchanged
from sfumato.planning.hierarchy_choice import best_blocks
from sfumato.planning.key_selection import (
    keep_if_groups_stay_visible,
    pairs_of,
    prefer_lower_charge,
    prefer_lower_error,
)
from sfumato.planning.margin_targets import AccuracyGoal, fixed_targets, margin_of_stages
from sfumato.planning.marginal_budget_split import (
    geometric_error,
)
from sfumato.planning.measurements import MeasurementSet, longest_spelled
from sfumato.planning.nested_conditions import prefers_steps
from sfumato.planning.noise import Noise, best_noise, event_of, variance_of
from sfumato.planning.noise_shape import shape_of
from sfumato.planning.notes.plan_notes import with_notes
from sfumato.planning.null_counts import best_null_counts
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.planning.range_questions import prefers_pieces, range_questions
from sfumato.planning.renyi_keys import with_renyi_keys
from sfumato.planning.shared_marginals import has_large_table
from sfumato.planning.top_lists import has_list
from sfumato.planning.ways import Asked, KnownNeeds, Needs, Ways, known_needs
from sfumato.policy.policy import Budget
from sfumato.query.relation import Options

NO_PRICE = "The query has no price."


@dataclass(frozen=True, slots=True)
class PriceTarget:
    """One of three: `epsilon`, the most that the whole query may cost; `within`, which may cost `epsilon` at most where
    it is given too, and `max_loss` in any case; `share`.

    None of them is a wish for what is free: public tables, or declared keys alone.
    """

    epsilon: Fraction | None
    delta: Fraction
    within: tuple[tuple[str, Fraction], ...]
    max_loss: PrivacyLoss
    share: Share | None = None
    margins_before_data: bool = False
    """Whether margins are known before the data is read, wherever that is possible, though none is named."""
    weights: tuple[tuple[str, Fraction], ...] = ()
    """How often the groups of a workload count beside each other, by their labels; once where they are not named."""
    split: tuple[tuple[str, str, Fraction], ...] | None = None
    """The shares of the price by label and name of what is measured, where margins of a workload decide them.

    None without such margins. With them, what is measured is what they are named of, whatever it costs.
    """
    goal: AccuracyGoal | None = None
    """The margins that pilot measurements and this one are asked for; a plan does not depend on it."""

    @property
    def accuracy_for(self) -> Fraction | None:
        """The epsilon that buys the most accuracy; None where margins or a share say how much is wanted."""
        return None if self.within else self.epsilon

    @property
    def rounded(self) -> "PriceTarget":
        """The same wish with epsilon or the share as a power of two, at most twice as small."""
        share = self.share and replace(self.share, fraction=power_of_two_below(self.share.fraction))
        return replace(self, epsilon=self.epsilon and power_of_two_below(self.epsilon), share=share)


def parse_price_target(
    epsilon: object,
    within: object,
    delta: object,
    options: Options,
    budget: Budget,
    cap: PrivacyLoss,
    *,
    share: object = None,
    account: Filter | None = None,
) -> PriceTarget:
    """Read what `ask` was given and what the text's OPTIONS say; both may only tighten the policy.

    A share is one of `account`.
    """
    asked = [
        positive(typed_rational(one, "epsilon"), "epsilon") for one in (epsilon, options.epsilon) if one is not None
    ]
    price = min(asked, default=None)
    given = {"epsilon": price, "within": within}
    if share is not None and (named := [name for name, value in given.items() if value is not None]):
        raise BadParameter(
            f"Both {named[0]} and share are given.",
            "Each of them decides the price.",
            ("Give one of the two: leave ", Setting(named[0]), " or ", Setting("share"), " out."),
        )
    targets = fixed_targets(within) if within is not None else ()
    of_account = None
    if share is not None:
        whole = account or Filter(cap.epsilon, cap.delta)
        of_account = Share(typed_share(share, "share"), whole.untouched)
    return PriceTarget(price, _delta(delta, options, budget), targets, cap, of_account)


def make_plan(private: PrivateQuery, wish: PriceTarget) -> Plan:
    """Return the plan of a query for an account that has spent nothing, with its notes, or refuse."""
    return with_notes(make_plans(private, wish)[0])


def make_plans(
    private: PrivateQuery,
    wish: PriceTarget,
    outcomes: tuple[ProjectNode, ...] = (),
    *,
    known: KnownNeeds | None = None,
) -> tuple[Plan, ...]:
    """Return the plans that fulfil a wish, the preferred first, or refuse: a function of text, policy and wish alone.

    Their notes are written for the one that is chosen (`with_notes`).
    `outcomes` is everything that is computed from the groups, where that is more than the query's own outcome.
    `known` keeps what does not depend on the price, for other prices of the same query.
    Which of several is charged depends on what the account has spent (`spending.chosen`).
    Theorem: releasing what a plan describes is `plan.loss`-DP in the person.  Proof: proofs/planning.md
    """
    plans = _plans_as_asked(private, wish, outcomes, known=known)
    if outcomes or wish.within or wish.margins_before_data or (pieces := range_questions((private,))) is None:
        return plans
    found = _plans_as_asked(pieces.questions[0], wish)
    return (*found, *plans) if prefers_pieces(found[0], pieces, plans[0], wish.max_loss) else plans


def _plans_as_asked(
    private: PrivateQuery,
    wish: PriceTarget,
    outcomes: tuple[ProjectNode, ...] = (),
    *,
    known: KnownNeeds | None = None,
) -> tuple[Plan, ...]:
    if private.first:
        if wish.within:
            raise margin_of_stages(wish.within[0][0])
        wish = replace(wish, margins_before_data=True)  # each stage is measured once, at bounds that are known before
    asked = Asked(wish.margins_before_data, bool(wish.within), wish.weights, outcomes or (private.outcome,), wish.split)
    needs = known_needs(private, asked, None if outcomes or wish.weights else known)
    plans = tuple(tuple(plan for ways in each for plan in _plans_of(private, ways, wish)) for each in needs.ways)
    first, *others = reversed(plans) if any(map(has_list, plans[-1])) else plans
    return first + tuple(plan for each in others for plan in each)


def make_preferred_plan(private: PrivateQuery, wish: PriceTarget, known: KnownNeeds) -> Plan | None:
    """Return the first of `make_plans` without the others; None where only all of them tell which that is.

    So it is where the price is an epsilon, keys are public, and neither bounds nor lists of groups are selected.
    """
    if wish.epsilon is None or wish.within or wish.share is not None or wish.split or wish.weights or private.first:
        return None
    if any(isinstance(node, LimitNode) for node in nodes(private.outcome)) or has_large_table(private.groups):
        return None  # a node that cuts off groups may list those of other cells, which are measured first then
    asked = Asked(wish.margins_before_data, False, (), (private.outcome,))
    way = known_needs(private, asked, known).ways_of(0)[0]
    if way.choices or way.steps is not None or any(need.keys is not None for need in way.usual.every):
        return None
    if any(each.usual.lists != each.usual.every for each in (way, *way.null_counts)):
        return None
    if way.blocks or (not wish.margins_before_data and range_questions((private,)) is not None):
        return None
    best = _preferred_null_counts(private, way, wish)
    return _plans_by(private, way if best is None else way.null_counts[best], wish)[0]


def _plans_of(private: PrivateQuery, ways: Ways, wish: PriceTarget) -> tuple[Plan, ...]:
    apart = _plans_without_blocks(private, ways, wish)
    blocked = [(_plans_by(private, each, wish), sums) for each, sums in ways.blocks]
    best = best_blocks([(plans[0], sums) for plans, sums in blocked], apart[0], wish.max_loss) if blocked else None
    return apart if best is None else (*blocked[best][0], *apart)


def _plans_without_blocks(private: PrivateQuery, ways: Ways, wish: PriceTarget) -> tuple[Plan, ...]:
    plans = _plans_by(private, ways, wish)
    if ways.steps is not None:
        steps = _possible_plans(private, ways.steps, wish)  # what is more exact comes first
        if steps and prefers_steps(steps[0], plans[0], wish.max_loss):
            return (*steps, *plans)
    best = _preferred_null_counts(private, ways, wish)
    return plans if best is None else (*_plans_by(private, ways.null_counts[best], wish), *plans)


def _preferred_null_counts(private: PrivateQuery, ways: Ways, wish: PriceTarget) -> int | None:
    """Return the best way to count rows without a value, decided once for all prices between two powers of two."""
    if not ways.null_counts:
        return None
    about = replace(wish.rounded, goal=None)
    if about not in ways.preferred:
        plain = not ways.tables and not ways.choices and all(need.keys is None for need in ways.usual.every)
        plain = plain and all(each.usual.lists == each.usual.every for each in (ways, *ways.null_counts))
        shaped = _preferred_by_shape(_NullCountChoice(private, ways), about) if plain else None
        ways.preferred[about] = shaped if plain else _decide_null_counts(private, ways, about)
    return ways.preferred[about]


class _NullCountChoice:
    """A choice among ways to count rows without a value: two are equal if everything is that decides it.

    Of public cells that is their shape, and which numbers the columns are made of. Proof: proofs/planning.md, §6
    """

    __slots__ = ("_known", "of")

    def __init__(self, private: PrivateQuery, ways: Ways) -> None:
        self.of: tuple[PrivateQuery, Ways] | None = (private, ways)
        columns = [(made.measured, isinstance(made, AverageColumn)) for made in ways.usual.every[0].derived]
        shapes = [tuple(map(shape_of, each.usual.every)) for each in (ways, *ways.null_counts)]
        self._known = (*shapes, *columns)

    def __hash__(self) -> int:
        return hash(self._known)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NullCountChoice) and self._known == other._known


@lru_cache(maxsize=64)
def _preferred_by_shape(choice: _NullCountChoice, about: PriceTarget) -> int | None:
    if choice.of is None:
        raise AssertionError("what is decided is remembered")
    (private, ways), choice.of = choice.of, None  # the cache keeps the key, and need not keep the question
    return _decide_null_counts(private, ways, about)


def _decide_null_counts(private: PrivateQuery, ways: Ways, about: PriceTarget) -> int | None:
    found = [(at, _possible_plans(private, each, about)) for at, each in enumerate(ways.null_counts)]
    possible = [(at, plans[0]) for at, plans in found if plans]
    best = best_null_counts([plan for _, plan in possible], _plans_by(private, ways, about)[0], about.max_loss)
    return None if best is None else possible[best][0]


def _possible_plans(private: PrivateQuery, ways: Ways, wish: PriceTarget) -> tuple[Plan, ...]:
    """Return the plans of another way to measure; none where it does not measure what a list of groups is chosen by."""
    try:
        return _plans_by(private, ways, wish)
    except KeysNeedDelta:
        return ()


def _plans_by(private: PrivateQuery, ways: Ways, wish: PriceTarget) -> tuple[Plan, ...]:
    # the split of version 0.12 in the last place: an answer that was given with it is still found
    plans = _plans_with(private, ways.usual, ways, wish)
    if not ways.balanced:
        return plans
    laplace, gaussian = (_plans_with(private, each, ways, wish) for each in ways.balanced)
    pairs = zip(laplace, gaussian, strict=True) if len(laplace) == len(gaussian) else [(laplace[0], gaussian[0])]
    weights = dict(wish.weights)
    return (*(min(pair, key=lambda plan: _geometric_error(plan, weights)) for pair in pairs), *plans)


def _geometric_error(plan: Plan, weights: Mapping[str, Fraction]) -> float:
    variances = {
        (group.group.label, one.name): variance_of(one.mechanism) / one.sensitivity.linf**2
        for group in plan.groups
        for one in group.measured
    }
    return geometric_error(plan.tables, variances, weights)


def _plans_with(private: PrivateQuery, split: Needs, ways: Ways, wish: PriceTarget) -> tuple[Plan, ...]:
    needs, lists = split.every, split.lists
    if not wish.delta and any(need.keys is not None for need in needs):
        for need in lists:
            if need.keys is not None and (need.top is None or not longest_spelled(need.group)):
                raise _keys_need_delta(need.group, private)
        needs = lists  # without a delta, keys can only be spelled
    if ways.choices:
        needs, lists = (
            (*needs, *price_selections(ways.choices, needs)),
            (*lists, *price_selections(ways.choices, lists)),
        )
    noise = _noise(private, needs, wish) if lists == needs else _better_noise(private, needs, lists, wish)
    noise = with_renyi_keys(noise, wish.max_loss)
    return tuple(
        Plan(private, groups, loss, event_of(groups), ways.tables, hierarchies=ways.hierarchies)
        for groups, loss in noise
    )


def _better_noise(
    private: PrivateQuery, needs: tuple[MeasurementSet, ...], others: tuple[MeasurementSet, ...], wish: PriceTarget
) -> tuple[Noise, ...]:
    """Return the noise of all cells, or first that of the other needs where it is better. A refused one is left out.

    The noise of all cells stays in the last place: an answer that was given with it before is still found.
    """
    try:
        every = _noise(private, needs, wish)
    except UnreachableMargin:
        return _noise(private, others, wish)
    while others != needs:
        try:
            found = _noise(private, others, wish)
        except UnreachableMargin:
            return every
        pairs = pairs_of(every, found, wish.share)
        shown = keep_if_groups_stay_visible(needs, others, pairs)
        if shown == others:
            first = (
                prefer_lower_charge(others, pairs, wish.max_loss)
                if wish.within
                else prefer_lower_error(needs, others, pairs)
            )
            return (*first, *every)
        others = shown
    return every


def _noise(private: PrivateQuery, needs: tuple[MeasurementSet, ...], wish: PriceTarget) -> tuple[Noise, ...]:
    if not any(need.keys is not None or need.measurements for need in needs):
        return ((tuple(GroupPlan(need.group, None, (), need.derived) for need in needs), PrivacyLoss(Fraction(0))),)
    if wish.share is not None:
        return noise_for(needs, wish.share, wish.delta)
    if wish.within:
        return _at_most(noise_within(private, needs, wish.within, wish.delta, wish.max_loss), wish)
    if wish.epsilon is None:
        raise BadParameter(
            NO_PRICE,
            "It reads people's rows, so its price must be stated.",
            (
                "Say what it may cost, for example ",
                Setting("share", "1%"),
                " or ",
                Setting("epsilon", "0.1"),
                *_or_margin(private, needs),
                ". The owner can set a default: `analysts.NAME.price`.",
            ),
        )
    return best_noise(needs, wish.epsilon, wish.delta, wish.max_loss)


def _at_most(noise: tuple[Noise, ...], wish: PriceTarget) -> tuple[Noise, ...]:
    """Return the noise that costs no more than was said beside `within`, or refuse."""
    found = tuple(one for one in noise if wish.epsilon is None or one[1].epsilon <= wish.epsilon)
    if found:
        return found
    least = min(loss.epsilon for _, loss in noise)
    raise UnreachableMargin(
        f"These margins cost ε = {round_up(least)}.",
        "That is more than the epsilon that was given beside them.",
        ("Give a larger ", Setting("epsilon"), ", or wider margins in ", Setting("within"), "."),
    )


def _or_margin(private: PrivateQuery, needs: tuple[MeasurementSet, ...]) -> tuple[str | Setting, ...]:
    """Return the other way to say it, by the first column that has a fixed margin."""
    derived = {(need.group.label, one.name): one for need in needs for one in need.derived}
    fixed = {(need.group.label, one.name) for need in needs for one in need.measurements if one.candidates is None}
    for name, origin in zip(private.names, origins(private), strict=True):
        source = shown_unchanged(origin, derived)
        if source is not None and (source[0], derived[source].plain) in fixed:
            return ", or how exact it has to be, for example ", Setting("within", f"{name}=25")
    return ()


def _keys_need_delta(group: Group, private: PrivateQuery) -> KeysNeedDelta:
    unknown = {(group.label, key.name) for key in group.keys if key.cells is None}
    shown_as = zip(private.names, private.outcome.items, strict=True)
    names = [f"`{name}`" for name, item in shown_as if address(item.scalar) in unknown]
    spelled = ""
    if longest_spelled(group):
        spelled = "or ask for the most frequent one, by people: ORDER BY COUNT(DISTINCT …) DESC LIMIT 1; "
    return KeysNeedDelta(
        f"The groups of {', '.join(names) or 'this query'} are not declared.",
        "Choosing them privately needs delta > 0, and this query has none.",
        (
            "Group by an expression with known values: a CASE, a bucket, or a column that WHERE … IN (…) narrows "
            f"to a list. Or ask the owner to declare `values`, or bounds that allow at most {MAX_GROUP_CELLS:,} "
            f"cells in total, or a delta; {spelled}if the policy has one, leave ",
            Setting("delta"),
            " out.",
        ),
    )


def _delta(delta: object, options: Options, budget: Budget) -> Fraction:
    given = [delta_or_zero(typed_rational(one, "delta")) for one in (delta, options.delta) if one is not None]
    least = min(given, default=budget.query_delta)
    if max(given, default=least) > budget.query_delta:
        raise LoosenedPolicy(
            f"delta = {quote_value(max(given))} is more than the policy allows a query.",
            f"Its query_delta is {round_up(budget.query_delta)}, and a query may only ask for less.",
            ("Leave ", Setting("delta"), f" out, or give {round_down(budget.query_delta)} at most."),
        )
    return least
