"""The filter: it holds a budget while analysts choose each question after seeing the answers before.

Accountants report the loss of a list that was fixed beforehand; only this decides what may still be asked.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, inf, log, log1p

from sfumato.accounting.approximate import separate
from sfumato.accounting.event import (
    BoundedRange,
    Composed,
    Event,
    Neighbours,
    Parallel,
    Pure,
    Repeated,
    as_neighbours,
)
from sfumato.accounting.loss import (
    PrivacyLoss,
    delta_or_zero,
    not_negative,
    one_relation,
    percent_down,
    round_down,
    round_up,
)
from sfumato.accounting.pure import epsilon_or_infinity
from sfumato.accounting.rdp import leaf_loss
from sfumato.caches import remembered
from sfumato.certified.enclosure import Enclosure, enclose, float_above, lower, refine, upper
from sfumato.errors import BadParameter, BudgetExhausted
from sfumato.exact import decimal_rational, integer, positive

RENYI_UNITS = 1 << 64
"""Rényi losses are kept as integers, in units of 2^-64."""
MAX_DENOMINATOR = 10**4200
"""A sum is exact while its denominator is not beyond this; then it is rounded up, to a multiple of 2^-64."""
MAX_ORDER = 4096
_MIN_TRIVIAL_ORDER_EPSILON = 1e12
_MAX_SHOWN_PERCENT = 100_000
_HALVINGS = 24
"""How finely it is looked for what a budget still pays for."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A budget and its charges. `charge` returns a new filter; the old one is unchanged.

    Theorem: for every adaptive choice of events that `charge` accepts, the whole interaction is (epsilon, delta)-DP.
    Proof: proofs/filter.md

    `Filter(epsilon, delta)` opens a budget; all fields together are its state, and `Filter(*fields)` restores it. An
    event is accepted iff afterwards the deltas of approximate events sum to at most delta/2, and either the pure
    losses sum to at most epsilon or the Rényi losses at `order` to at most `capacity`. With delta = 0 only pure
    losses count.

    >>> from sfumato.accounting.event import Pure
    >>> budget = Filter(3, Fraction(1, 10**6))
    >>> print(budget.order, budget.charge(Pure(Fraction(1, 10), Neighbours.ADD_REMOVE)).spent)
    9 ε = 0.1, δ = 0.000001
    """

    epsilon: Fraction
    delta: Fraction
    order: int | None = None
    """The one Rényi order, fixed when the budget is opened; None when delta = 0."""
    pure: Fraction | None = Fraction(0)
    """The sum of pure losses; None after an event that has none."""
    renyi: int = 0
    """The sum of Rényi losses at `order`, each rounded up, in units of 2^-64."""
    approximate: Fraction = Fraction(0)
    """The sum of the deltas of `Approximate` events."""
    neighbours: Neighbours | None = None
    """The relation of everything charged; None before the first charge."""

    def __post_init__(self) -> None:
        for name, value in _filter_to_json(self).items():
            object.__setattr__(self, name, value)

    @property
    def capacity(self) -> int | None:
        """How much Rényi loss fits, in units of 2^-64, rounded down; None when delta = 0. It may be negative."""
        return None if self.order is None else _capacity(self.epsilon, self.delta, self.order)

    @property
    def total(self) -> PrivacyLoss:
        return PrivacyLoss(self.epsilon, self.delta)

    @property
    def used(self) -> Fraction:
        """The share of the budget that is used: of epsilon by pure losses or of `capacity`, whichever is smaller."""
        share = _used_share(self, self.pure, self.renyi)
        return Fraction(1) if share is None else share

    @property
    def spent(self) -> PrivacyLoss:
        """A bound of everything charged so far, at the budget's delta. It holds whenever it is read.

        Theorem: at every stopping time the transcript is (spent.epsilon, spent.delta)-DP. Proof: proofs/odometer.md
        """
        spent = _spent(self, self.pure, self.renyi, self.approximate)
        return self.total if spent is None else spent

    @property
    def remaining(self) -> PrivacyLoss:
        """The maximum cost of one more pure release beside `spent`, and the delta that is left."""
        beyond = self.pure is None or self.pure > self.epsilon
        delta = self.delta - self.approximate - (self.delta / 2 if beyond else 0)
        return PrivacyLoss(max(Fraction(0), self.epsilon - self.spent.epsilon), max(Fraction(0), delta))

    @property
    def odometer(self) -> PrivacyLoss:
        """With probability at least 1 - delta, at all times at once, the privacy loss is at most this epsilon.

        By Ville's inequality; proofs/filter.md, Corollary.
        """
        sums = [] if self.pure is None else [self.pure]
        if self.order is not None and self.renyi:
            sums.append(Fraction(self.renyi, RENYI_UNITS) + _ville(self.delta / 2, self.order))
        return PrivacyLoss(min(sums, default=Fraction(0)), self.delta)

    @property
    def affords(self) -> Fraction:
        """Largest epsilon of one more pure release, rounded down to three digits; 0 if none fits."""
        relation = self.neighbours or Neighbours.ADD_REMOVE
        low, high = Fraction(0), self.epsilon
        if self.pure is not None:
            low = max(low, self.epsilon - self.pure)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.accepts(Pure(middle, relation)) else (low, middle)
        bought = Fraction(round_down(low, 3))
        return bought if bought > 0 and self.accepts(Pure(bought, relation)) else Fraction(0)

    @property
    def for_approximate(self) -> Fraction:
        """Part of delta available to approximate events."""
        return self.delta / 2

    @property
    def untouched(self) -> "Filter":
        """The same budget, of the same order, before any charge."""
        return Filter(self.epsilon, self.delta, self.order)

    def used_after(self, event: Event) -> Fraction | None:
        """Return the share used after this event, which may be above 1; None if it is unbounded."""
        return self._after(event).share

    def spent_after(self, event: Event) -> PrivacyLoss | None:
        """Return what `spent` would be after this event, whether or not it fits; None if the loss is unbounded."""
        after = self._after(event)
        return _spent(self, after.pure, after.renyi, after.approximate)

    def accepts(self, event: Event) -> bool:
        """Tell whether the event fits. The answer depends on events and the budget only, never on data."""
        return self._after(event)._holds()

    def charge(self, event: Event) -> "Filter":
        """Return the filter after this event, or refuse; a refused event costs nothing."""
        after = self._after(event)
        if after._holds():
            return replace(
                self,
                pure=after.pure,
                renyi=int(after.renyi),
                approximate=after.approximate,
                neighbours=one_relation(self.neighbours, event),
            )
        raise _budget_exhausted(self, after)

    def _after(self, event: Event) -> "_Sums":
        # with delta = 0 the Rényi loss decides nothing, but an event without a theorem is still refused by name
        renyi, bound, delta = _losses_of(event, self.order or 2)
        one_relation(self.neighbours, event)
        pure = None if self.pure is None or bound == inf else add_losses(self.pure, Fraction(bound))
        after = inf if renyi == inf else self.renyi + renyi
        return _Sums(self, pure, after if self.order else 0, add_losses(self.approximate, delta))


@dataclass(frozen=True, slots=True)
class _Sums:
    """What the sums would be; `renyi` is infinite after a release without any guarantee."""

    budget: Filter
    pure: Fraction | None
    renyi: int | float
    approximate: Fraction

    @property
    def share(self) -> Fraction | None:
        """The used share of the budget; None if it is unbounded."""
        return _used_share(self.budget, self.pure, self.renyi)

    def _holds(self) -> bool:
        capacity = self.budget.capacity
        return self.approximate <= self.budget.for_approximate and (
            (self.pure is not None and self.pure <= self.budget.epsilon)
            or (capacity is not None and self.renyi <= capacity)
        )


def _used_share(budget: Filter, pure: Fraction | None, renyi: int | float) -> Fraction | None:
    """Return the share of a budget that these sums use; None where neither of them counts."""
    shares = [] if pure is None else [pure / budget.epsilon]
    if (capacity := budget.capacity) is not None and capacity > 0 and renyi != inf:
        shares.append(Fraction(int(renyi), capacity))
    return min(shares, default=None)


def _spent(budget: Filter, pure: Fraction | None, renyi: int | float, approximate: Fraction) -> PrivacyLoss | None:
    """Return the smaller of the pure sum and of the Rényi sum's conversion; None where neither is finite."""
    bounds = [] if pure is None else [pure]
    if (capacity := budget.capacity) is not None and renyi != inf:
        # ε - (R - S_R), in the integers that the filter decides by; never below ε·used  # proofs/odometer.md, 1 and 3
        bounds.append(max(budget.epsilon + Fraction(int(renyi) - capacity, RENYI_UNITS), _own_unit(budget, renyi)))
    if not bounds:
        return None
    charged = pure != 0 or renyi > 0 or approximate > 0
    return PrivacyLoss(min(bounds), budget.delta if charged else Fraction(0))


def _own_unit(budget: Filter, renyi: int | float) -> Fraction:
    """Return ε·S_R/R, the used share in the unit of epsilon; 0 where nothing fits."""
    capacity = budget.capacity
    return budget.epsilon * Fraction(int(renyi), capacity) if capacity is not None and capacity > 0 else Fraction(0)


def add_losses(total: Fraction, more: Fraction) -> Fraction:
    """Return the sum of losses: exact, or rounded up by less than 2^-64 where its denominator would grow too long.

    Equal losses never come to that, and neither do losses whose denominators have a common multiple of at most
    `MAX_DENOMINATOR`: so a budget for exactly m equal questions answers exactly m, and no question makes a sum that
    cannot be written. Proof: proofs/filter.md, Sums

    >>> add_losses(Fraction(1, 3), Fraction(1, 6))
    Fraction(1, 2)
    """
    return _round_up_sum(total + _round_up_sum(more))


def _round_up_sum(total: Fraction) -> Fraction:
    return total if total.denominator <= MAX_DENOMINATOR else Fraction(ceil(total * RENYI_UNITS), RENYI_UNITS)


@remembered(64)
def _losses_of(event: Event, order: int) -> tuple[int | float, Fraction | float, Fraction]:
    """Return the Rényi loss in units, the pure loss and the delta of an event: asked for by several caps in turn."""
    core, delta = separate(event, "Rényi")
    return rounded_loss(core, order), epsilon_or_infinity(core), delta


def rounded_loss(core: Event, order: int) -> int | float:
    """Return the Rényi loss of an event without `Approximate` in units of 2^-64, each single release rounded up.

    Rounding the single release makes k charges of an event and one charge of `Repeated(event, k)` the same.
    """
    match core:
        case Repeated(inner, times):
            once = rounded_loss(inner, order)
            return inf if once == inf else times * once
        case Composed(events):
            losses = [rounded_loss(part, order) for part in events]
            return inf if inf in losses else sum(losses)
        case Parallel(events):
            return max((rounded_loss(part, order) for part in events), default=0)
        case _:
            return _rounded_leaf(core, order)


@remembered(1 << 15)
def _rounded_leaf(event: Event, order: int) -> int | float:
    loss = leaf_loss(event, Fraction(order))
    if isinstance(event, BoundedRange):  # ledgers hold sums of this bound, and what an event adds never changes
        loss = min(order * event.epsilon * event.epsilon / 8, event.epsilon)
    return inf if loss == inf else ceil(loss * RENYI_UNITS)


def _filter_to_json(state: Filter) -> dict[str, object]:
    epsilon = positive(decimal_rational(state.epsilon, "epsilon"), "epsilon")
    delta = delta_or_zero(state.delta)
    if delta == 1:
        raise BadParameter(
            "delta = 1 gives no protection.", "Every release satisfies it.", "Give a delta such as 1e-6."
        )
    order = _best_order(epsilon, delta) if state.order is None and delta else state.order
    if order is not None and (integer(order, "order", 2) > MAX_ORDER or not delta):
        raise BadParameter(
            f"order = {order} does not fit this budget.",
            f"A budget with delta > 0 has one order of 2 to {MAX_ORDER}, one with delta = 0 has none.",
            "Leave `order` out when the budget is opened, and restore the stored one afterwards.",
        )
    return {
        "epsilon": epsilon,
        "delta": delta,
        "order": order,
        "pure": None if state.pure is None else not_negative(decimal_rational(state.pure, "pure"), "pure"),
        "renyi": integer(state.renyi, "renyi", 0),
        "approximate": not_negative(decimal_rational(state.approximate, "approximate"), "approximate"),
        "neighbours": None if state.neighbours is None else as_neighbours(state.neighbours),
    }


def _enclosed_capacity(epsilon: Fraction, delta: Fraction, order: int, digits: int) -> Enclosure:
    """Enclose R = ε + ln(αδ_R)/(α-1) + ln(α/(α-1)) with δ_R = δ/2."""
    spread = enclose(order * delta / 2, digits).ln() / (order - 1)
    return spread + enclose(Fraction(order, order - 1), digits).ln() + epsilon


@remembered(1024)
def _capacity(epsilon: Fraction, delta: Fraction, order: int) -> int:
    return floor(lower(refine(lambda digits: _enclosed_capacity(epsilon, delta, order, digits))) * RENYI_UNITS)


@remembered(1024)
def _best_order(epsilon: Fraction, delta: Fraction) -> int:
    """Return the order that leaves the most room for Gaussian noise: R(α)/α is largest.

    Floats find the few that come near; digits decide, so that every machine opens the same budget alike.
    """
    log_half = log(delta.numerator) - log(delta.denominator) - log(2)
    size = float_above(epsilon)
    if size > _MIN_TRIVIAL_ORDER_EPSILON:
        return 2  # R(α)/α is nearly ε/α there

    def _room(order: int) -> float:
        return (size + (log(order) + log_half) / (order - 1) - log1p(-1 / order)) / order

    rooms = {order: _room(order) for order in range(2, MAX_ORDER + 1)}
    best = max(rooms.values())
    near = [order for order, room in rooms.items() if room >= best - 1e-9 * (abs(best) + 1e-6)]
    return max(near, key=lambda order: (Fraction(_capacity(epsilon, delta, order), order), -order))


@remembered(1024)
def _ville(delta: Fraction, order: int) -> Fraction:
    return Fraction(upper(refine(lambda digits: enclose(1 / delta, digits).ln() / (order - 1))))


def _budget_exhausted(budget: Filter, after: _Sums) -> BudgetExhausted:
    left = percent_down(1 - min(Fraction(1), budget.used))
    what = f"The budget of {budget.total} has {left} left, and this release does not fit."
    if after.approximate > budget.for_approximate:
        return BudgetExhausted(
            what,
            f"Privately selected groups may use δ = {round_up(budget.for_approximate)} in total; with this "
            f"release they would use {round_up(after.approximate)}.",
            "Ask with a smaller delta, or without groups that must be selected privately, or ask the owner to "
            "raise the budget.",
        )
    if budget.order is None and after.pure is None:
        return BudgetExhausted(
            what,
            "Its noise needs a delta, and this budget has none.",
            "Ask with Laplace noise, or ask the owner for a budget with delta.",
        )
    share = after.share
    bought = budget.affords
    return BudgetExhausted(
        what,
        "Its privacy loss is unbounded."
        if share is None
        else f"It would use {_percent(share)} of the budget in total.",
        "Ask the owner to raise the budget."
        if not bought
        else f"What is left pays for one more release at epsilon ≤ {round_down(bought)}. Ask for less, with more "
        "noise, or ask the owner to raise the budget.",
    )


def _percent(share: Fraction) -> str:
    """Format a share as a percentage, also above 100 %."""
    percent = ceil(100 * share)
    return f"{percent:,} %" if percent <= _MAX_SHOWN_PERCENT else "many times the whole"
