"""Flows: relations whose expressions are total scalars. An engine turns a flow into one statement.

A flow mirrors the relation it was made of, node by node; labels are the relation's own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sfumato.language.facts import Facts, Kind, hull
from sfumato.language.scalar import Scalar
from sfumato.query.aggregate import Aggregate
from sfumato.query.relation import JoinKind
from sfumato.query.types import Type
from sfumato.query.windows import WindowCall, WindowFrame

SortKeys = tuple[tuple[Scalar, bool, bool], ...]
"""Scalars that rows are ordered by: (scalar, descending, nulls first)."""

RANK = '"rank"'
"""The hidden column that numbers the rows of one person, and of kept public rows those that agree in their keys.

No name of a query or policy holds a quotation mark.
"""


@dataclass(frozen=True, slots=True)
class Item:
    """A scalar and the name of the column that it becomes."""

    name: str
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class ScanNode:
    """The rows of a table of the copy: (name above, name in the copy, facts) of each column.

    Of a private table, `max_rows_per_unit` is how many rows of one person were accounted for and `unique` names the
    columns (in the copy) whose values were taken to occur once within a person. The statement keeps to both, whatever
    the copy holds. `one_row_per_unit` says that the policy declares one row for each person, so that nothing is lost by
    keeping one. `numbered` names the columns (in the copy) whose values the copy numbers within each person, in the
    order they are kept. `counted` names those (in the copy) of which each row says in how many rows of the same person
    they have a value. `levelled` and `summed` name those (in the copy) of which each row says at which levels it
    counts, by rows and by sums. `chosen` names the columns (above) whose bounds each question chooses, `rows_chosen`
    says that it chooses how many rows count, and `groups_chosen` in how many groups people count; where ranks are drawn
    for all units, the columns hold RANK. `totals` names columns (above) with the most that one person adds to a sum of
    each, in steps. `has_no_removed_table` says that no other table tells who lost rows. `multiplied` names the columns
    (in the copy) of which the first row of a person with a value says how many rows have it, and the others 0.
    `people` names the column (in the copy) of the owner's id where the copy numbers people beside it.
    """

    table: str
    label: str
    columns: tuple[tuple[str, str, Facts], ...]
    max_rows_per_unit: int | None = None
    unique: tuple[str, ...] = ()
    one_row_per_unit: bool = False
    numbered: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    totals: tuple[tuple[str, int], ...] = ()
    levelled: tuple[str, ...] = ()
    summed: tuple[str, ...] = ()
    has_no_removed_table: bool = False
    rows_chosen: bool = False
    groups_chosen: bool = False
    multiplied: tuple[str, ...] = ()
    people: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InputNode:
    """Rows that come with the statement: literals of the text, or a noisy table that is bound under the label.

    `rows` is None for a noisy table. Values are as an engine keeps them: integers in steps, texts, truth values.
    `of` is the label of the noisy table that this one is again, where a question uses it in several places.
    """

    label: str
    columns: tuple[tuple[str, Facts], ...]
    rows: tuple[tuple[int | float | str | bool | None, ...], ...] | None
    of: str | None = None

    @property
    def table(self) -> str:
        """The label of the noisy table."""
        return self.label if self.of is None else self.of


@dataclass(frozen=True, slots=True)
class MaterializedNode:
    """The rows of a public flow, computed once: what was accounted for and what the statement reads are the same.

    `columns` are scalars over the source, by the names that they have above. `most` is how many rows were taken to
    agree in all `keys`; the statement keeps to it. `rows` is the engine's hold on the rows, which live as long as
    this handle; another engine computes them for itself. Two are equal if the same was asked for.
    """

    source: "RelNode"
    label: str
    columns: tuple[Item, ...]
    keys: tuple[Scalar, ...]
    most: int
    rows: object = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FilterNode:
    """The rows for which the condition is true."""

    source: "RelNode"
    condition: Scalar


@dataclass(frozen=True, slots=True)
class JoinNode:
    """Pairs of rows for which the condition is true; LEFT also keeps a left row that met none, FULL those of both."""

    kind: JoinKind
    left: "RelNode"
    right: "RelNode"
    condition: Scalar | None


@dataclass(frozen=True, slots=True)
class AggregateItem:
    """One aggregate of the rows of a group, and what is known of its values."""

    name: str
    aggregate: Aggregate[Scalar]
    facts: Facts


@dataclass(frozen=True, slots=True)
class AggregateNode:
    """One row per distinct keys; without keys, exactly one row."""

    source: "RelNode"
    label: str
    keys: tuple[Item, ...]
    measures: tuple[AggregateItem, ...]


@dataclass(frozen=True, slots=True)
class ProjectNode:
    """Every row turned into other columns."""

    source: "RelNode"
    label: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class SortNode:
    """The rows in an order."""

    source: "RelNode"
    keys: SortKeys


@dataclass(frozen=True, slots=True)
class LimitNode:
    """At most `count` rows (all, if None) after the first `offset`."""

    source: "RelNode"
    count: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """The rows that a window function sees: those that agree in `partition`, in an order, inside a frame.

    The distances of a frame that is not of rows are in steps of the one sort key.
    """

    partition: tuple[Scalar, ...]
    order: SortKeys
    frame: WindowFrame


@dataclass(frozen=True, slots=True)
class WindowValue:
    """Value computed from the position of a row, or taken from a row at another position."""

    name: str
    call: WindowCall[Scalar]
    facts: Facts
    around: WindowSpec


@dataclass(frozen=True, slots=True)
class WindowAggregate:
    """An aggregate of the rows inside a frame, for every row."""

    folded: AggregateItem
    around: WindowSpec

    @property
    def name(self) -> str:
        return self.folded.name

    @property
    def facts(self) -> Facts:
        return self.folded.facts


@dataclass(frozen=True, slots=True)
class WindowNode:
    """Every row with more columns under `label`: what window functions say of it."""

    source: "RelNode"
    label: str
    values: tuple[WindowValue | WindowAggregate, ...]


@dataclass(frozen=True, slots=True)
class UnionAllNode:
    """The rows of both sides, the left ones first; both show columns of the same names and kinds under `label`."""

    left: ProjectNode
    right: ProjectNode
    label: str


FOUND = "found"
"""The column that a Marked flow adds."""
FOUND_FACTS = Facts(Type.BOOLEAN, Kind.BOOLEAN, nullable=False)


@dataclass(frozen=True, slots=True)
class MarkJoinNode:
    """Every left row once, and under `label` whether some right row meets the condition with it: true or false."""

    left: "RelNode"
    right: "RelNode"
    label: str
    condition: Scalar | None


RelNode = (
    ScanNode
    | InputNode
    | MaterializedNode
    | FilterNode
    | JoinNode
    | AggregateNode
    | ProjectNode
    | SortNode
    | LimitNode
    | WindowNode
    | UnionAllNode
    | MarkJoinNode
)


def children(flow: RelNode) -> tuple[RelNode, ...]:
    """Return the flows directly below."""
    match flow:
        case (
            ScanNode() | InputNode() | MaterializedNode()
        ):  # kept rows have been computed: nothing below them is run again
            return ()
        case JoinNode(_, left, right) | UnionAllNode(left, right) | MarkJoinNode(left, right):
            return (left, right)
        case _:
            return (flow.source,)


def nodes(flow: RelNode) -> Iterator[RelNode]:
    """Give the flow and all flows below it, each before those below it, without recursion."""
    waiting = [flow]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))


def noisy_tables(flow: RelNode) -> list[InputNode]:
    """Return the noisy tables of a flow."""
    return [node for node in nodes(flow) if isinstance(node, InputNode) and node.rows is None]


def outputs(flow: RelNode) -> list[tuple[str, str, Facts]]:
    """Return the columns that can be used above a flow: label, name and facts."""
    match flow:
        case ScanNode(_, label, columns):
            return [(label, name, facts) for name, _, facts in columns]
        case InputNode(label, columns):
            return [(label, name, facts) for name, facts in columns]
        case MaterializedNode(_, label, items):
            return [(label, item.name, item.scalar.facts) for item in items]
        case JoinNode(_, left, right):
            return outputs(left) + outputs(right)
        case AggregateNode(_, label, keys, measures):
            named = [(label, key.name, key.scalar.facts) for key in keys]
            return named + [(label, measure.name, measure.facts) for measure in measures]
        case ProjectNode(_, label, items):
            return [(label, item.name, item.scalar.facts) for item in items]
        case WindowNode(source, label, values):
            return outputs(source) + [(label, value.name, value.facts) for value in values]
        case UnionAllNode(left, right):
            pairs = zip(outputs(left), outputs(right), strict=True)
            return [(label, name, hull(facts, other)) for (label, name, facts), (_, _, other) in pairs]
        case MarkJoinNode(left, _, label):
            return [*outputs(left), (label, FOUND, FOUND_FACTS)]
        case _:
            return outputs(flow.source)
