"""What bounding leaves out of an answer, said once, with the questions that measure it; no margin covers it."""

import re
from collections.abc import Iterator
from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import round_up
from sfumato.analysis.catalog import REMOVED
from sfumato.analysis.facts import Facts, Kind
from sfumato.analysis.flow import Flow, Fold, Pair, Read, below
from sfumato.analysis.private_query import Group
from sfumato.analysis.scalar import Operator, Scalar, walk
from sfumato.mechanisms.laplace import Laplace
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.planning.within import CONFIDENCE
from sfumato.query.functions import Aggregation
from sfumato.query.types import NUMBERS

_SMALL = Fraction(1, 10)
"""The price at which a note says what a count would buy."""

_SIMPLE = re.compile("[a-z_][a-z0-9_]*")

Cut = tuple[str, str | None]
"""What cuts, and the question that counts the people it concerns; None where no text is known that asks it."""


def bounding_notes(plan: Plan) -> tuple[str, ...]:
    """Tell what bounding may have removed, which no margin covers, and how it can be measured."""
    return tuple(dict.fromkeys(note for group in plan.groups for note in _notes(group)))


def _notes(plan: GroupPlan) -> Iterator[str]:
    if not plan.measured and plan.selection is None:
        return
    cuts = list(_cuts(plan.group))
    if cuts:
        yield _left_out(plan.group) + _how_many(cuts)
    summed = (one.argument for one in plan.measured if one.aggregation is Aggregation.SUM and one.argument)
    stored = {(read.label, name) for read in _reads(plan.group.rows) for name, _, _ in read.columns}
    for argument in summed:
        for part in walk(argument):
            column = part.operator is Operator.COLUMN and part.constant in stored
            if column and part.facts.bounded and part.facts.type in NUMBERS:
                yield _clipping(part)


def _left_out(group: Group) -> str:
    if any(isinstance(node, Fold) for node in _nodes(group.rows)):
        return "One person counts with what the policy keeps of their rows; what they have beyond is left out."
    contribution = group.contribution
    rows = "1 row" if contribution.rows == 1 else f"{contribution.rows:,} rows"
    groups = ""
    if contribution.bound_groups:
        groups = f" in at most {contribution.groups:,} group{'s' * (contribution.groups > 1)}"
    return f"One person counts with at most {rows}{groups}; what they have beyond is left out."


def _cuts(group: Group) -> Iterator[Cut]:
    """Give every place that leaves something of a person out: each table's bound, then those of the question."""
    if group.identity:  # where each row is a person, nobody has more
        for table in dict.fromkeys(read.table for read in _private(group.rows)):
            if not table.endswith(REMOVED):
                yield f"`rows_per_unit` of {table}", f'SELECT COUNT(*) FROM "{table}{REMOVED}"'  # noqa: S608
    contribution = group.contribution
    if contribution.bound_rows:
        yield f"more than {contribution.rows:,} rows", _counting(group, (), contribution.rows)
    if contribution.bound_groups and group.keys:
        keys = tuple(key.scalar for key in group.keys)
        yield f"more than {contribution.groups:,} groups", _counting(group, keys, contribution.groups)


def _counting(group: Group, keys: tuple[Scalar, ...], most: int) -> str | None:
    """Return the question that counts people with more rows, or more combinations of keys, than this."""
    reads = list(_reads(group.rows))
    if len(reads) != 1 or any(isinstance(node, Pair | Fold) for node in _nodes(group.rows)):
        return None
    names = [_column(scalar, reads[0]) for scalar in (group.unit, *keys)]
    known = [name for name in names if name is not None]
    if len(known) < len(names):
        return None
    unit, table = known[0], _quoted(reads[0].table)
    if keys:
        present = " AND ".join(f"{name} IS NOT NULL" for name in known[1:])
        listed = ", ".join(known)
        table = f"(SELECT {listed} FROM {table} WHERE {present} GROUP BY {listed}) AS g"  # noqa: S608
    people = f"SELECT {unit} FROM {table} GROUP BY {unit} HAVING COUNT(*) > {most}"  # noqa: S608
    return f"SELECT COUNT(*) FROM ({people}) AS p"  # noqa: S608


def _column(scalar: Scalar, read: Read) -> str | None:
    """Return the name of a plain column of the one table, as a question spells it."""
    match scalar.operator, scalar.constant:
        case Operator.COLUMN, (label, str(name)) if label == read.label and '"' not in name:
            return _quoted(name)
    return None


def _quoted(name: str) -> str:
    return name if _SIMPLE.fullmatch(name) else f'"{name}"'


def _how_many(cuts: list[Cut]) -> str:
    """Say how to find out whom that concerns: counts of people, each at the price of any other."""
    margin = Laplace(1, 1 / _SMALL, Neighbours.ADD_REMOVE).margin(CONFIDENCE)  # one row per person: replaced or removed
    price = f"at ε = {round_up(_SMALL)} within ±{margin}."
    asked = [(cut, question) for cut, question in cuts if question is not None]
    if len(cuts) == 1 == len(asked):
        return f" {asked[0][1]} counts whom that concerns; {price}"
    words = ""
    if asked:
        listed = "; ".join(f"{question} ({cut})" for cut, question in asked)
        words = f" Whom that concerns is counted by {listed}; {'each ' * (len(asked) > 1)}{price}"
    for cut, question in cuts:
        if question is None:
            words += f" To count people with {cut}, group by the person and the keys first, then count those with more."
    return words


def _private(flow: Flow) -> Iterator[Read]:
    return (read for read in _reads(flow) if any(facts.kind is Kind.UNIT for *_, facts in read.columns))


def _reads(flow: Flow) -> Iterator[Read]:
    return (node for node in _nodes(flow) if isinstance(node, Read))


def _nodes(flow: Flow) -> Iterator[Flow]:
    yield flow
    for source in below(flow):
        yield from _nodes(source)


def _clipping(column: Scalar) -> str:
    facts = column.facts
    name = column.constant[1] if isinstance(column.constant, tuple) else ""
    reach = f"from {_value(facts.low, facts)} to {_value(facts.high, facts)}"
    return f"`{name}` counts {reach}; values beyond its bounds are moved to them."


def _value(steps: int, facts: Facts) -> str:
    value = steps * facts.step
    sign = "-" if value < 0 else ""
    return sign + round_up(abs(value), 12)
