"""From a private query and a wish to a plan: everything is decided here, before any data is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss, delta_or_zero, round_down, round_up
from sfumato.analysis.keys import MAX_GROUP_CELLS
from sfumato.analysis.private_query import Group, PrivateQuery
from sfumato.errors import BadParameter, KeysNeedDelta, LoosenedPolicy, Setting, UnreachableMargin, quote_value
from sfumato.exact import positive, power_of_two_below, typed_rational, typed_share
from sfumato.language.rel_nodes import ProjectNode
from sfumato.language.scalar import address
from sfumato.planning.accuracy_target import noise_within
from sfumato.planning.bounding.selection import price_selections, selects_a_bound, with_candidate_bounds
from sfumato.planning.bounding.total_bounds import with_total_bounds
from sfumato.planning.budget_share import Share, noise_for
from sfumato.planning.column_origins import origins, shown_unchanged
from sfumato.planning.disjoint_conditions import with_vector
from sfumato.planning.hierarchies import Hierarchy
from sfumato.planning.hierarchy_choice import best_blocks, blocked_needs
from sfumato.planning.key_selection import (
    keep_if_groups_stay_visible,
    pairs_of,
    prefer_lower_charge,
    prefer_lower_error,
    select_keys_at_bound,
)
from sfumato.planning.margin_targets import AccuracyGoal, fixed_targets, margin_of_stages
from sfumato.planning.marginal_budget_split import (
    balance_marginals,
    geometric_error,
    split_measurements,
    weight_marginals,
)
from sfumato.planning.measurements import MeasurementSet, longest_spelled, needs_of
from sfumato.planning.nested_conditions import prefers_steps, with_steps
from sfumato.planning.noise import Noise, best_noise, event_of, variance_of
from sfumato.planning.notes.plan_notes import with_notes
from sfumato.planning.null_counts import WITH_NULL_COUNTS, best_null_counts
from sfumato.planning.outside_cells import with_outside_cells
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.planning.range_questions import prefers_pieces, range_questions
from sfumato.planning.range_strategies import OrderedSum
from sfumato.planning.renyi_keys import with_renyi_keys
from sfumato.planning.shared_marginals import ContingencyTable, common_tables, has_large_table, with_remainder_cells
from sfumato.planning.top_lists import has_list, with_top_lists
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
    known: "KnownNeeds | None" = None,
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
    known: "KnownNeeds | None" = None,
) -> tuple[Plan, ...]:
    if private.first:
        if wish.within:
            raise margin_of_stages(wish.within[0][0])
        wish = replace(wish, margins_before_data=True)  # each stage is measured once, at bounds that are known before
    asked = _Asked(
        wish.margins_before_data, bool(wish.within), wish.weights, outcomes or (private.outcome,), wish.split
    )
    needs = (known or {}).get(asked.fixed) if not outcomes and not wish.weights else None
    if needs is None:
        needs = _needs_by_cells(private, asked)
        if (
            known is not None and not known and not outcomes and not wish.weights
        ):  # one entry: the bytes of a question are counted when it is first planned
            known[asked.fixed] = needs
    plans = tuple(tuple(plan for ways in each for plan in _plans_of(private, ways, wish)) for each in needs)
    first, *others = reversed(plans) if any(map(has_list, plans[-1])) else plans
    return first + tuple(plan for each in others for plan in each)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What decides, beside the query, what is measured: nothing of it is a price."""

    margins_before_data: bool
    within: bool
    weights: tuple[tuple[str, Fraction], ...]
    outcomes: tuple[ProjectNode, ...]
    split: tuple[tuple[str, str, Fraction], ...] | None = None

    @property
    def fixed(self) -> tuple[bool, bool]:
        """What decides it for a query that is asked alone."""
        return self.margins_before_data, self.within


@dataclass(frozen=True, slots=True)
class _Needs:
    """All that is measured, with one split of the price, and the same where the largest cells are found as a list."""

    every: tuple[MeasurementSet, ...]
    lists: tuple[MeasurementSet, ...]


@dataclass(frozen=True, slots=True)
class _Ways:
    """One way to measure what was asked, whatever it may cost: the usual split, and perhaps balanced ones."""

    usual: _Needs
    balanced: tuple[_Needs, ...]
    """For Laplace and for Gaussian noise; none where no table is common."""
    tables: tuple[ContingencyTable, ...]
    choices: tuple[MeasurementSet, ...]
    """The selections of bounds."""
    steps: "_Ways | None" = None
    """The same with conditions that contain others measured as steps."""
    null_counts: tuple["_Ways", ...] = ()
    """The same with rows where a column is NULL counted by themselves."""
    hierarchies: tuple[Hierarchy, ...] = ()
    blocks: tuple[tuple["_Ways", Mapping[str, tuple[OrderedSum, ...]]], ...] = ()
    """The same with ordered keys measured in blocks, too, and the sums that are shown of the cells of each group."""
    preferred: dict[PriceTarget, int | None] = field(default_factory=dict, compare=False)
    """Which of these is the best, by the rounded wish."""


KnownNeeds = dict[tuple[bool, bool], tuple[tuple[_Ways, ...], ...]]
"""What the plans of one query measure, before any price, by whether margins are fixed, and named."""


def _needs_by_cells(private: PrivateQuery, asked: _Asked) -> tuple[tuple[_Ways, ...], ...]:
    """Return the needs with and without the cell of what lies outside: an answer given either way is still found."""
    groups = with_remainder_cells(private.groups)
    wider = groups if asked.margins_before_data else with_outside_cells(groups)
    found = tuple(_ways_of(private, each, asked) for each in ((groups,) if wider == groups else (wider, groups)))
    if asked.margins_before_data or asked.within or not has_large_table(private.groups):
        return found
    if any(way.usual.lists != way.usual.every for ways in found for way in ways):
        return found  # a few of many cells are found with less noise than all of them
    # what was answered up to version 0.14, without the common table, in the last place
    return (_ways_of(private, with_remainder_cells(private.groups, large=True), asked, large=True), *found)


def _ways_of(
    private: PrivateQuery, groups: tuple[Group, ...], asked: _Asked, *, large: bool = False
) -> tuple[_Ways, ...]:
    fixed = asked.margins_before_data or asked.within or asked.split is not None
    needs = tuple(needs_of(group, private.neighbours, fixed=fixed) for group in groups)
    needs, choices = with_candidate_bounds(needs, private.neighbours)
    better = tuple(with_vector(select_keys_at_bound(need), private.neighbours) for need in needs)
    way = _way(private, better, choices, asked, large=large)
    stepped = tuple(with_steps(need, private.neighbours) for need in better)
    if stepped != better and len(needs) == 1 and not fixed:
        way = replace(way, steps=_way(private, stepped, choices, asked, large=large))
    if len(needs) == 1 and not fixed:
        counted = [tuple(count(need, private.neighbours) for need in better) for count in WITH_NULL_COUNTS]
        ways = [_way(private, each, choices, asked, large=large) for each in counted if each != better]
        way = replace(way, null_counts=tuple(ways))
    if not (fixed or choices or way.tables or private.first):
        found = blocked_needs(way.usual.every, private.groups, asked.outcomes, private.neighbours)
        blocks = (
            (_Ways(_Needs(one.needs, one.needs), (), (), (), hierarchies=one.hierarchies), one.sums) for one in found
        )
        way = replace(way, blocks=tuple(blocks))
    # keys selected by people, and conditions measured each by itself, in the last place, as above
    return (way,) if better == needs else (way, _way(private, needs, choices, asked, large=large))


def _way(
    private: PrivateQuery,
    needs: tuple[MeasurementSet, ...],
    choices: tuple[MeasurementSet, ...],
    asked: _Asked,
    *,
    large: bool,
) -> _Ways:
    tables = common_tables(needs, large=large)
    if not asked.margins_before_data:  # a stream cuts nobody off over all its periods
        needs = with_total_bounds(needs, tables, private.neighbours)
    weights = dict(asked.weights)
    needs = _with_weights(needs, weights)
    splits = [weight_marginals(needs, tables)]
    if asked.split:
        splits = [split_measurements(needs, asked.split, power) for power in (2, 2, 1)]
    elif tables and not asked.margins_before_data and not asked.within:
        splits += [balance_marginals(needs, tables, weights, power) for power in (2, 1)]
    usual, *balanced = (_with_lists(private, each, tables, asked) for each in splits)
    return _Ways(usual, tuple(balanced), tables, choices)


def _with_lists(
    private: PrivateQuery, needs: tuple[MeasurementSet, ...], tables: tuple[ContingencyTable, ...], asked: _Asked
) -> _Needs:
    lists = with_top_lists(needs, asked.outcomes, tables, private.neighbours)
    # a list is found by noise that is known before; where a level is chosen, all cells are measured at it
    pairs = zip(needs, lists, strict=True)
    return _Needs(needs, tuple(need if selects_a_bound(need) else other for need, other in pairs))


def _plans_of(private: PrivateQuery, ways: _Ways, wish: PriceTarget) -> tuple[Plan, ...]:
    apart = _plans_without_blocks(private, ways, wish)
    blocked = [(_plans_by(private, each, wish), sums) for each, sums in ways.blocks]
    best = best_blocks([(plans[0], sums) for plans, sums in blocked], apart[0], wish.max_loss) if blocked else None
    return apart if best is None else (*blocked[best][0], *apart)


def _plans_without_blocks(private: PrivateQuery, ways: _Ways, wish: PriceTarget) -> tuple[Plan, ...]:
    plans = _plans_by(private, ways, wish)
    if ways.steps is not None:
        steps = _possible_plans(private, ways.steps, wish)  # what is more exact comes first
        if steps and prefers_steps(steps[0], plans[0], wish.max_loss):
            return (*steps, *plans)
    best = _preferred_null_counts(private, ways, replace(wish.rounded, goal=None)) if ways.null_counts else None
    return plans if best is None else (*_plans_by(private, ways.null_counts[best], wish), *plans)


def _preferred_null_counts(private: PrivateQuery, ways: _Ways, about: PriceTarget) -> int | None:
    """Return the best way to count rows without a value, decided once for all prices between two powers of two."""
    if about not in ways.preferred:
        found = [(at, _possible_plans(private, each, about)) for at, each in enumerate(ways.null_counts)]
        possible = [(at, plans[0]) for at, plans in found if plans]
        apart = _plans_by(private, ways, about)[0]
        best = best_null_counts([plan for _, plan in possible], apart, about.max_loss)
        ways.preferred[about] = None if best is None else possible[best][0]
    return ways.preferred[about]


def _possible_plans(private: PrivateQuery, ways: _Ways, wish: PriceTarget) -> tuple[Plan, ...]:
    """Return the plans of another way to measure; none where it does not measure what a list of groups is chosen by."""
    try:
        return _plans_by(private, ways, wish)
    except KeysNeedDelta:
        return ()


def _plans_by(private: PrivateQuery, ways: _Ways, wish: PriceTarget) -> tuple[Plan, ...]:
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


def _with_weights(needs: tuple[MeasurementSet, ...], weights: Mapping[str, Fraction]) -> tuple[MeasurementSet, ...]:
    """Return the needs, with the errors of each group counted as often as its weight says."""
    return tuple(
        replace(
            need,
            measurements=tuple(replace(one, importance=one.importance * weight) for one in need.measurements),
        )
        if (weight := weights.get(need.group.label, Fraction(1))) != 1
        else need
        for need in needs
    )


def _plans_with(private: PrivateQuery, split: _Needs, ways: _Ways, wish: PriceTarget) -> tuple[Plan, ...]:
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
    """Return the noise of all cells, or first that of the other needs where it is better; what is refused is not.

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
