"""What bounding leaves out of an answer, said once, with the questions that measure it; no margin covers it."""

import re
from collections.abc import Iterator
from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import round_up
from sfumato.analysis.catalog import REMOVED
from sfumato.analysis.private_query import Group
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import RANK, AggregateNode, JoinNode, MarkJoinNode, RelNode, ScanNode, nodes
from sfumato.language.scalar import Scalar, address, walk
from sfumato.mechanisms.laplace import Laplace
from sfumato.planning.accuracy_target import CONFIDENCE
from sfumato.planning.bounding.bias import can_be_biased, truncation_bias
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.query.functions import Aggregation
from sfumato.query.types import NUMBERS

_SMALL = Fraction(1, 10)
"""The price at which a note says what a count would buy."""

_SIMPLE = re.compile("[a-z_][a-z0-9_]*")


def bounding_notes(plan: Plan) -> tuple[str, ...]:
    """Tell once what bounding may have left out, which no margin covers; and which values are moved to bounds."""
    whole = truncation_bias(plan, None, 1 - CONFIDENCE)
    groups = [
        group
        for group in plan.groups
        if group.selection is not None
        or bool(group.chosen)
        or any(can_be_biased(one, whole[group.group.label, one.name]) for one in group.measured)
    ]
    notes = [_left_out([group.group for group in groups]), *(note for group in groups for note in _clipped(group))]
    return tuple(dict.fromkeys(filter(None, notes)))


def _clipped(plan: GroupPlan) -> Iterator[str]:
    summed = [
        argument
        for one in plan.all_outputs
        for argument in one.quantity.arguments
        if one.quantity.function is not Aggregation.COUNT
    ]
    stored = {(read.label, name) for read in _reads(plan.group.rows) for name, _, _ in read.columns}
    stored -= {(label, name) for label, name in stored if name == RANK}  # ours, and within its bounds
    for argument in summed:
        for part in walk(argument):
            if address(part) in stored and part.facts.bounded and part.facts.type in NUMBERS:
                yield _clipping(part)


def _left_out(groups: list[Group]) -> str:
    """Say how much of one person counts and which questions tell whom that concerns; nothing where all counts."""
    cut = [group for group in groups if _cuts(group)]
    if not cut:
        return ""
    limits = dict.fromkeys(_limits(group) for group in cut)
    questions = dict.fromkeys(question for group in cut for question in _cuts(group) if question)
    beyond = "what they have beyond is left out. No margin includes that."
    return f"One person counts with {' or '.join(limits)}; {beyond}{_how_many(list(questions))}"


def _limits(group: Group) -> str:
    contribution = group.contribution
    if any(isinstance(node, AggregateNode) for node in nodes(group.rows)):
        tables = dict.fromkeys((read.table, read.max_rows_per_unit or 1) for read in _private(group.rows))
        rows = " and ".join(f"{_many(most, 'row')} of {table}" for table, most in tables)
    else:
        rows = _many(contribution.rows, "row")
    groups = f" in at most {_many(contribution.groups, 'group')}" if contribution.bound_groups else ""
    return f"at most {rows}{groups}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _cuts(group: Group) -> list[str | None]:
    """Return a question for each place that leaves something of a person out; None where no text is known for it."""
    found: list[str | None] = []
    if group.identity:  # where each row is a person, nobody has more
        cut = (read for read in _private(group.rows) if not read.one_row_per_unit and not read.table.endswith(REMOVED))
        untold = {read.table: read.has_no_removed_table for read in cut}
        found += [None if none else f'SELECT COUNT(*) FROM "{table}{REMOVED}"' for table, none in untold.items()]  # noqa: S608
    contribution = group.contribution
    if contribution.bound_rows:
        found.append(_counting(group, (), contribution.rows))
    if contribution.bound_groups and group.keys:
        found.append(_counting(group, tuple(key.scalar for key in group.keys), contribution.groups))
    return found


def _counting(group: Group, keys: tuple[Scalar, ...], most: int) -> str | None:
    """Return the question that counts people with more rows, or more combinations of keys, than this."""
    reads = list(_reads(group.rows))
    if len(reads) != 1 or any(isinstance(node, JoinNode | AggregateNode | MarkJoinNode) for node in nodes(group.rows)):
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


def _column(scalar: Scalar, read: ScanNode) -> str | None:
    """Return the name of a plain column of the one table, as a question spells it."""
    found = address(scalar)
    return _quoted(found.name) if found is not None and found.label == read.label and '"' not in found.name else None


def _quoted(name: str) -> str:
    return name if _SIMPLE.fullmatch(name) else f'"{name}"'


def _how_many(questions: list[str]) -> str:
    """Say which questions count the people concerned, each at the price of any other."""
    if not questions:
        return ""
    margin = Laplace(1, 1 / _SMALL, Neighbours.ADD_REMOVE).margin(CONFIDENCE)  # one row per person: replaced or removed
    each = "each " * (len(questions) > 1)
    price = f"({each}±{margin} at epsilon {round_up(_SMALL)})"
    return f" To count the people who have more, ask {', and '.join(questions)} {price}."


def _private(flow: RelNode) -> Iterator[ScanNode]:
    return (read for read in _reads(flow) if any(facts.kind is Kind.UNIT for *_, facts in read.columns))


def _reads(flow: RelNode) -> Iterator[ScanNode]:
    return (node for node in nodes(flow) if isinstance(node, ScanNode))


def _clipping(column: Scalar) -> str:
    facts = column.facts
    name = found.name if (found := address(column)) is not None else ""
    reach = f"from {_value(facts.low, facts)} to {_value(facts.high, facts)}"
    return f"`{name}` counts {reach}; values beyond its bounds are moved to them."


def _value(steps: int, facts: Facts) -> str:
    value = steps * facts.step
    sign = "-" if value < 0 else ""
    return sign + round_up(abs(value), 12)
