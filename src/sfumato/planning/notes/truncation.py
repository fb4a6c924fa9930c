"""Notes on contribution bounds and clipping: what they remove, and the questions that measure it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf, log10

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import round_up
from sfumato.analysis.catalog import REMOVED
from sfumato.analysis.private_query import Group
from sfumato.language.facts import Facts, Kind
from sfumato.language.outside import bare
from sfumato.language.rel_nodes import RANK, AggregateNode, JoinNode, MarkJoinNode, RelNode, ScanNode, nodes
from sfumato.language.scalar import Scalar, address, walk
from sfumato.mechanisms.laplace import Laplace
from sfumato.planning.accuracy_target import CONFIDENCE
from sfumato.planning.bounding.bias import BiasBounds, can_be_biased, truncation_bias
from sfumato.planning.notes.note import Note, NoteRank, few_at_a_time
from sfumato.planning.plan import GroupPlan, Plan
from sfumato.query.functions import Aggregation
from sfumato.query.types import NUMBERS

_EXAMPLE_EPSILON = Fraction(1, 10)
"""Epsilon at which a note states the margin of a count."""

TRUNCATION_BIAS = "Bounds and clipping"
"""How a note begins that depends on the published truncation losses."""

_MAX_SHARE_TOLD = 50.0
"""The share that was left out is stated below this many per cent. Above, little is known of the whole."""

_SIMPLE = re.compile("[a-z_][a-z0-9_]*")


def bounding_notes(plan: Plan) -> tuple[Note, ...]:
    """Say what bounding may have dropped, which no margin covers, and which values are clipped."""
    whole = truncation_bias(plan, None, 1 - CONFIDENCE)
    groups = [group for group in plan.groups if not group.is_bound_selection and _can_lack(group, whole)]
    notes = [*_dropped_rows([group.group for group in groups]), *(note for group in groups for note in _clipped(group))]
    return tuple(dict.fromkeys(notes))


@dataclass(frozen=True, slots=True)
class BiasEstimate:
    """What a column probably has too much and lacks, each with how far off that may be; None where it is not known."""

    excess: tuple[float, float] | None
    lack: tuple[float, float] | None
    total: float | None = None
    """The sum of the column over all rows, where what it lacks is a part of that."""
    is_limit: bool = False
    """Whether that is what all rows of the table lack: the column's own may lack less."""

    @classmethod
    def between(
        cls,
        estimate: tuple[float, float],
        most: tuple[float, float],
        total: float | None = None,
        is_limit: bool = False,
    ) -> "BiasEstimate":
        """Return the estimate of two sides, from the same sides with how far noise reaches."""
        (excess, lack), (excess_most, lack_most) = estimate, most
        sides = ((excess, excess_most), (lack, lack_most))
        found = [None if inf in side else (side[0], side[1] - side[0]) for side in sides]
        return cls(found[0], found[1], total, is_limit)


def bias_notes(bias: Mapping[str, BiasEstimate | None]) -> Iterator[Note]:
    """Say how much truncation probably moved each number, where that was published, and where its bound is."""
    known = {name: share for name, share in bias.items() if share is not None}
    told = [_told(name, one) for name, one in known.items() if one.excess is not None and one.lack is not None]
    for names in few_at_a_time([text for text in told if text]):
        yield Note(NoteRank.LACK, f"{TRUNCATION_BIAS} {names}. intervals(bias=True) has the guaranteed bound.")
    for names in few_at_a_time([f"`{name}`" for name, one in known.items() if one.excess is None or one.lack is None]):
        yield Note(NoteRank.LACK, f"How much bounds and clipping removed from {names} is not known.")


def _told(name: str, bias: BiasEstimate) -> str:
    (excess, excess_off), (lack, lack_off) = bias.excess or (0.0, 0.0), bias.lack or (0.0, 0.0)
    if not lack + lack_off + excess + excess_off:
        return ""
    if excess + excess_off:
        lower, upper = f"-{_with_margin(excess, excess_off)}", f"+{_with_margin(lack, lack_off)}"
        return f"changed `{name}` by {'at most' if bias.is_limit else 'about'} {lower} to {upper}"
    whole = 0.0 if bias.total is None else bias.total + lack
    shares = [100 * part / whole for part in (lack, lack_off)] if whole > 0 else []
    share = f", {shares[0]:.2g} % (±{shares[1]:.2g} points)" if shares and sum(shares) < _MAX_SHARE_TOLD else ""
    if bias.is_limit:
        return f"left out at most about {_rounded(lack)} (±{_rounded(lack_off)}) of `{name}`"
    return f"left out about {_rounded(lack)} (±{_rounded(lack_off)}) of `{name}`{share}"


def _with_margin(amount: float, off: float) -> str:
    """Return an estimate with how far it may be off, where anything is known of that.

    >>> _with_margin(920, 0), _with_margin(61000, 198000)
    ('920', '61,000 (±200,000)')
    """
    return f"{_rounded(amount)} (±{_rounded(off)})" if off else _rounded(amount)


def _rounded(amount: float) -> str:
    """Return two digits of an estimate, as people write them.

    >>> _rounded(1649.3), _rounded(0.0123), _rounded(0)
    ('1,600', '0.012', '0')
    """
    digits = 0 if not amount else 1 - floor(log10(abs(amount)))
    value = round(amount, digits)
    return f"{value:,.0f}" if digits <= 0 else f"{value:,.12g}"


def drops_rows(group: GroupPlan) -> bool:
    """Whether rows of a person may be left out of a group."""
    return bool(_cuts(group.group))


def clips_values(group: GroupPlan) -> bool:
    """Whether values that a group computes with may have been moved to bounds."""
    return any(True for _ in _clipped(group))


def _can_lack(group: GroupPlan, whole: Mapping[tuple[str, str], BiasBounds]) -> bool:
    """Whether truncation can have changed anything that is measured; the question alone decides that."""
    biased = (can_be_biased(measurement, whole[group.group.label, measurement.name]) for measurement in group.measured)
    return group.selection is not None or bool(group.chosen) or any(biased)


def _clipped(plan: GroupPlan) -> Iterator[Note]:
    summed = [
        argument
        for output in plan.all_outputs
        for argument in output.quantity.arguments
        if output.quantity.function is not Aggregation.COUNT
    ]
    stored = {(read.label, name) for read in _reads(plan.group.rows) for name, _, _ in read.columns}
    stored -= {(label, name) for label, name in stored if name == RANK}  # ours, and within its bounds
    for argument in summed:
        for part in walk(argument):
            if address(part) in stored and part.facts.bounded and part.facts.type in NUMBERS:
                yield _clipping(part)


def _dropped_rows(groups: list[Group]) -> Iterator[Note]:
    """Say how much one person contributes and which questions count the people concerned; nothing where all counts."""
    cut = [group for group in groups if _cuts(group)]
    for limits in dict.fromkeys(_limits(group) for group in cut):
        text = f"Each person contributes {limits}; extra rows are dropped. Margins do not cover this."
        yield Note(NoteRank.LACK, text)
    for question in dict.fromkeys(question for group in cut for question in _cuts(group) if question):
        margin = Laplace(1, 1 / _EXAMPLE_EPSILON, Neighbours.ADD_REMOVE).margin(CONFIDENCE)  # one row per person
        price = f"(±{margin} at epsilon {round_up(_EXAMPLE_EPSILON)})"
        yield Note(NoteRank.HINT, f"To count the people with dropped rows, ask {question} {price}.")


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
    if group.identity:  # where each row is a person, no person has more
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
    found = address(bare(scalar))
    return _quoted(found.name) if found is not None and found.label == read.label and '"' not in found.name else None


def _quoted(name: str) -> str:
    return name if _SIMPLE.fullmatch(name) else f'"{name}"'


def _private(flow: RelNode) -> Iterator[ScanNode]:
    return (read for read in _reads(flow) if any(facts.kind is Kind.UNIT for *_, facts in read.columns))


def _reads(flow: RelNode) -> Iterator[ScanNode]:
    return (node for node in nodes(flow) if isinstance(node, ScanNode))


def _clipping(column: Scalar) -> Note:
    facts = column.facts
    name = found.name if (found := address(column)) is not None else ""
    bounds = f"{_value(facts.low, facts)} to {_value(facts.high, facts)}"
    return Note(NoteRank.LACK, f"Values of `{name}` are clipped to {bounds}.")


def _value(steps: int, facts: Facts) -> str:
    value = steps * facts.step
    sign = "-" if value < 0 else ""
    return sign + round_up(abs(value), 12)
