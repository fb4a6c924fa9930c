"""Flows: relations whose expressions are total scalars. An engine turns a flow into one statement.

A flow mirrors the relation it was made of, node by node; labels are the relation's own.
"""

from dataclasses import dataclass, field

from sfumato.language.facts import Facts
from sfumato.language.scalar import Scalar
from sfumato.query.aggregate import Aggregate
from sfumato.query.relation import JoinKind


@dataclass(frozen=True, slots=True)
class Item:
    """A scalar and the name of the column that it becomes."""

    name: str
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Read:
    """The rows of a table of the copy: (name above, name in the copy, facts) of each column.

    Of a private table, `most` is how many rows of one person were accounted for and `once` names the columns (in the
    copy) whose values were taken to occur once within a person. The statement keeps to both, whatever the copy holds.
    `sole` says that the policy declares one row for each person, so that nothing is lost by keeping one. `numbered`
    names the columns (in the copy) whose values the copy numbers within each person, in the order they are kept.
    """

    table: str
    label: str
    columns: tuple[tuple[str, str, Facts], ...]
    most: int | None = None
    once: tuple[str, ...] = ()
    sole: bool = False
    numbered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """Rows that come with the statement: literals of the text, or a noisy table that is bound under the label.

    `rows` is None for a noisy table. Values are as an engine keeps them: integers in steps, texts, truth values.
    """

    label: str
    columns: tuple[tuple[str, Facts], ...]
    rows: tuple[tuple[int | float | str | bool | None, ...], ...] | None


@dataclass(frozen=True, slots=True)
class Kept:
    """The rows of a public flow, computed once: what was accounted for and what the statement reads are the same.

    `columns` are scalars over the source, by the names that they have above. `most` is how many rows were taken to
    agree in all `keys`; the statement keeps to it. `rows` is the engine's hold on the rows, which live as long as
    somebody has it; another engine computes them for itself. Two are equal if the same was asked for.
    """

    source: "Flow"
    label: str
    columns: tuple[Item, ...]
    keys: tuple[Scalar, ...]
    most: int
    rows: object = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Keep:
    """The rows for which the condition is true."""

    source: "Flow"
    condition: Scalar


@dataclass(frozen=True, slots=True)
class Pair:
    """Pairs of rows for which the condition is true; a LEFT pair also keeps a left row that met none."""

    kind: JoinKind
    left: "Flow"
    right: "Flow"
    condition: Scalar | None


@dataclass(frozen=True, slots=True)
class Folded:
    """One aggregate of the rows of a group, and what is known of its values."""

    name: str
    aggregate: Aggregate[Scalar]
    facts: Facts


@dataclass(frozen=True, slots=True)
class Fold:
    """One row per distinct keys; without keys, exactly one row."""

    source: "Flow"
    label: str
    keys: tuple[Item, ...]
    measures: tuple[Folded, ...]


@dataclass(frozen=True, slots=True)
class Show:
    """Every row turned into other columns."""

    source: "Flow"
    label: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """The rows in an order: (scalar, descending, nulls first)."""

    source: "Flow"
    keys: tuple[tuple[Scalar, bool, bool], ...]


@dataclass(frozen=True, slots=True)
class Take:
    """At most `count` rows (all, if None) after the first `offset`."""

    source: "Flow"
    count: int | None
    offset: int


Flow = Read | Given | Kept | Keep | Pair | Fold | Show | Order | Take


def below(flow: Flow) -> tuple[Flow, ...]:
    """Return the flows directly below."""
    match flow:
        case Read() | Given() | Kept():  # what is kept has been computed: nothing below it is run again
            return ()
        case Pair(_, left, right):
            return (left, right)
        case _:
            return (flow.source,)


def outputs(flow: Flow) -> list[tuple[str, str, Facts]]:
    """Return the columns that can be used above a flow: label, name and facts."""
    match flow:
        case Read(_, label, columns):
            return [(label, name, facts) for name, _, facts in columns]
        case Given(label, columns):
            return [(label, name, facts) for name, facts in columns]
        case Kept(_, label, items):
            return [(label, item.name, item.scalar.facts) for item in items]
        case Pair(_, left, right):
            return outputs(left) + outputs(right)
        case Fold(_, label, keys, measures):
            named = [(label, key.name, key.scalar.facts) for key in keys]
            return named + [(label, measure.name, measure.facts) for measure in measures]
        case Show(_, label, items):
            return [(label, item.name, item.scalar.facts) for item in items]
        case _:
            return outputs(flow.source)
