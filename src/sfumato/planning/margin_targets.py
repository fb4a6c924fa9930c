"""Margins that columns of an answer should have, in their own unit or as a part of the value, as `within` says."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.accounting.loss import round_up
from sfumato.errors import BadParameter, Setting, UnreachableMargin, quote_value
from sfumato.exact import positive, typed_rational

KNOWN_WITH_ANSWER = "The value is known only with the answer."
NOT_PLAIN = "It depends on the data, or the column is not a plain COUNT or SUM."


def depends_on_data(refusal: UnreachableMargin) -> bool:
    """Whether only a pilot measurement can say what a margin costs."""
    return refusal.why in (KNOWN_WITH_ANSWER, NOT_PLAIN)


@dataclass(frozen=True, slots=True)
class MarginTarget:
    """The name of a column and the margin that it should have; a relative one is a part of the value shown."""

    name: str
    amount: Fraction
    relative: bool = False

    def __str__(self) -> str:
        return f"`{self.name}` ±{self.text}"

    @property
    def text(self) -> str:
        """The margin as people write it.

        >>> MarginTarget("n", Fraction(1, 20), relative=True).text, MarginTarget("n", Fraction(25)).text
        ('5 %', '25')
        """
        return f"{round_up(self.amount * 100, 6)} %" if self.relative else round_up(self.amount, 6)


@dataclass(frozen=True, slots=True)
class AccuracyGoal:
    """The margins that a question was asked for, and which of its measurements this one is.

    Proof: proofs/pilots.md
    """

    targets: tuple[MarginTarget, ...]
    most: Fraction
    """The most epsilon of all its measurements together."""
    paid: Fraction
    """The epsilon of the pilot measurements before this one."""
    is_pilot: bool
    """Whether this measurement only sets the price of the next."""
    unreachable: str = ""
    """Why the margins cannot be reached, where the pilot measurements say so."""

    def note(self, price: Fraction) -> str:
        """Say what this measurement is for, before it is charged."""
        names = ", ".join(map(str, self.targets))
        if self.is_pilot:
            again = "another" if self.paid else "a first"
            return (
                f"The price of {names} depends on the data. It is set by {again} measurement, for "
                f"ε = {round_up(price)}. All measurements of this query cost at most ε = {round_up(self.most)}."
            )
        paid = f"First measurements for ε = {round_up(self.paid)} are paid."
        if self.unreachable:
            return f"{names} cannot be reached. {self.unreachable} {paid}"
        return f"{names} is expected for ε = {round_up(price)}. {paid}"


def read_targets(within: object) -> tuple[MarginTarget, ...]:
    """Read margins by column: a number, or a percentage of the value such as "5%".

    >>> [str(target) for target in read_targets({"n": "5%", "cost": 25})]
    ['`cost` ±25', '`n` ±5 %']
    """
    if not isinstance(within, Mapping) or not within or not all(isinstance(name, str) for name in within):
        raise BadParameter(
            f"within = {quote_value(within)} names no margins.",
            "It gives columns of the answer the margin that each should have.",
            ("Write for example ", Setting("within", "n=25"), "."),
        )
    return tuple(_target(name, margin) for name, margin in sorted(within.items()))


def _target(name: str, margin: object) -> MarginTarget:
    said = f"within[{quote_value(name)}]"
    text = margin.strip() if isinstance(margin, str) else ""
    if text.endswith("%"):
        return MarginTarget(name, positive(typed_rational(text[:-1].rstrip(), said), said) / 100, relative=True)
    return MarginTarget(name, positive(typed_rational(margin, said), said))


def exact_margin(margin: object, name: str = "within") -> str:
    """Return a margin as exact text: a number, or a percentage as it is.

    >>> exact_margin(0.5), exact_margin(" 5 %")
    ('1/2', '5%')
    """
    text = margin.strip() if isinstance(margin, str) else ""
    if text.endswith("%"):
        typed_rational(text[:-1].rstrip(), name)
        return f"{text[:-1].rstrip()}%"
    return str(typed_rational(margin, name))


def fixed_targets(within: object) -> tuple[tuple[str, Fraction], ...]:
    """Return the margins in their columns' own units; a relative one depends on the data."""
    targets = read_targets(within)
    for target in targets:
        if target.relative:
            raise UnreachableMargin(
                f"A margin of {target.text} for `{target.name}` depends on the value itself.",
                KNOWN_WITH_ANSWER,
                "Ask for this query alone, with `ask`, or name a margin in the unit of the column.",
            )
    return tuple((target.name, target.amount) for target in targets)


def goal_to_json(goal: AccuracyGoal) -> dict[str, object]:
    """Return a goal as it is stored beside an answer."""
    targets = {
        target.name: f"{target.amount * 100}%" if target.relative else str(target.amount) for target in goal.targets
    }
    numbers = {"most": str(goal.most), "paid": str(goal.paid)}
    return {"within": targets, **numbers, "pilot": goal.is_pilot, "unreachable": goal.unreachable}


def goal_from_json(document: Mapping[str, Any] | None) -> AccuracyGoal | None:
    """Return a stored goal; None where an answer had none.

    >>> goal = AccuracyGoal(read_targets({"n": "5%"}), Fraction(1), Fraction(1, 8), False)
    >>> goal_from_json(goal_to_json(goal)) == goal
    True
    """
    if document is None:
        return None
    targets = read_targets(document["within"])
    numbers = Fraction(document["most"]), Fraction(document["paid"])
    return AccuracyGoal(targets, *numbers, document["pilot"], document["unreachable"])


def margin_of_stages(name: str) -> UnreachableMargin:
    """Refuse a margin of a question that measures a value first and compares rows with it."""
    return UnreachableMargin(
        f"A margin of `{name}` cannot be asked for.",
        "This query compares rows with a value that it measures first, and both share the price.",
        ("Say what it may cost, for example ", Setting("epsilon", "0.1"), ", or ask for the value first."),
    )
