"""The ends of error bars in a query: `dp_low(x)`, `dp_high(x)` and `dp_margin(x)` of noisy numbers.

They are functions of what was released, so they cost nothing and change no measurement. A column of the answer that is
nothing else is read off the bars of the answer. Anywhere else the number must come from one noisy table, which then
has one column more.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sfumato.language.facts import Facts, Kind
from sfumato.language.numbers import constant
from sfumato.language.rel_nodes import InputNode, Item, MaterializedNode, ProjectNode, noisy_tables
from sfumato.language.scalar import Operator, Scalar, column, columns_read
from sfumato.query.rebuilding import rebuild_fields

END_COLUMN = "interval end "
"""How the names of the columns begin that hold the ends of bars; no name of a query has a blank before its number."""
_MAX_END_STEPS = 1 << 62
ENDS_OF_SEVERAL_ROWS = (
    "The error bar of a number that is computed from several rows is used below the answer.",
    "In conditions, in ORDER BY and below other aggregates, dp_low, dp_high and dp_margin take a number of one row of "
    "one GROUP BY.",
    "Select it as a column of its own, without WHERE, ORDER BY or an aggregate over it: SELECT …, dp_low(x) FROM ….",
)
"""The refusal of a call that has no noisy table to be a column of."""


class IntervalSide(StrEnum):
    """Which part of an interval is asked for."""

    LOW = "dp_low"
    HIGH = "dp_high"
    MARGIN = "dp_margin"


@dataclass(frozen=True, slots=True)
class EndColumn:
    """A column that a noisy table gets: the ends of the bars of a scalar of its own columns."""

    label: str
    name: str
    side: IntervalSide
    argument: Scalar


@dataclass(frozen=True, slots=True)
class ResolvedEnds:
    """An outcome without calls of dp_low, dp_high and dp_margin, and what stands for them."""

    outcome: ProjectNode
    columns: tuple[EndColumn, ...]
    shown: Mapping[int, IntervalSide]
    """The places of the answer's columns that show ends; the outcome has the number itself there."""
    unresolved: bool
    """Whether a call is left whose number does not come from one noisy table."""


def end_scalar(argument: Scalar, side: IntervalSide) -> Scalar:
    """Return the end of a number's bar: on the number's own grid, NULL where the side is open."""
    facts = replace(argument.facts, nullable=True, declared_low=False, declared_high=False)
    if facts.kind is Kind.INTEGER:
        facts = replace(facts, low=-_MAX_END_STEPS, high=_MAX_END_STEPS)
    return Scalar(Operator.INTERVAL_END, (argument,), facts, side.value)


def resolve_ends(outcome: ProjectNode) -> ResolvedEnds:
    """Return an outcome whose calls are columns of its noisy tables, or of the answer."""
    if not any(scalar.operator is Operator.INTERVAL_END for scalar in _scalars(outcome)):
        return ResolvedEnds(outcome, (), {}, False)
    shown = {
        index: IntervalSide(str(item.scalar.constant))
        for index, item in enumerate(outcome.items)
        if item.scalar.operator is Operator.INTERVAL_END
    }
    items = tuple(
        Item(item.name, item.scalar.arguments[0]) if index in shown else item
        for index, item in enumerate(outcome.items)
    )
    labels = {node.label for node in noisy_tables(outcome)}
    found: dict[tuple[str, IntervalSide, Scalar], EndColumn] = {}
    unresolved: list[Scalar] = []

    def replaced(_: str, thing: Any) -> Any:
        if not isinstance(thing, Scalar) or thing.operator is not Operator.INTERVAL_END:
            return rebuild_fields(thing, replaced)
        (argument,), side = thing.arguments, IntervalSide(str(thing.constant))
        tables = {label for label, _ in columns_read(argument)}
        if not tables:
            return argument if side is not IntervalSide.MARGIN else constant(0, argument.facts.type)
        if len(tables) > 1 or not tables <= labels:
            unresolved.append(thing)
            return thing
        (label,) = tables
        known = found.setdefault(
            (label, side, argument), EndColumn(label, f"{END_COLUMN}{len(found) + 1}", side, argument)
        )
        return column(label, known.name, thing.facts)

    plain: ProjectNode = replaced("", replace(outcome, items=items))
    columns = tuple(found.values())
    return ResolvedEnds(_with_columns(plain, columns), columns, shown, bool(unresolved))


def _with_columns(outcome: ProjectNode, columns: tuple[EndColumn, ...]) -> ProjectNode:
    """Return the outcome with the columns in the tables that it reads."""

    def extended(_: str, thing: Any) -> Any:
        if isinstance(thing, InputNode):
            own = tuple(
                (other.name, _facts(other)) for other in columns if other.label == thing.label and thing.rows is None
            )
            return replace(thing, columns=(*thing.columns, *own)) if own else thing
        return thing if isinstance(thing, Scalar) else rebuild_fields(thing, extended)

    made: ProjectNode = extended("", outcome)
    return made


def _facts(one: EndColumn) -> Facts:
    return end_scalar(one.argument, one.side).facts


def _scalars(thing: Any) -> Iterator[Scalar]:
    """Give every scalar of a flow, with its parts."""
    found: list[Scalar] = []

    def gather(_: str, part: Any) -> Any:
        if isinstance(part, Facts | InputNode | MaterializedNode):  # without scalars, and often large
            return part
        if isinstance(part, Scalar):
            found.append(part)
        return rebuild_fields(part, gather)

    gather("", thing)
    yield from found
