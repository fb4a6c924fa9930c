"""How many characters of one person's rows an engine has to look at: what decides how long an answer takes.

A table's own texts are read once, whoever they belong to. Where rows are joined, one person's few rows become many
pairs, and each of them is looked at again: then characters are counted, from the text and the policy alone.
"""

from collections.abc import Iterable

from sfumato.errors import QueryTooLarge, position_prefix
from sfumato.language.alike import check_alike
from sfumato.language.facts import Kind
from sfumato.language.flow import Flow, Pair, nodes
from sfumato.language.scalar import Operator, Scalar, walk
from sfumato.query.expression import NOWHERE, Position

MOST_CHARACTERS = 10_000_000
"""So many characters of one person may be looked at in one step: less than half a second, for the slowest operator."""
_UNKNOWN = 1_000
"""A text of a public table, of which nothing is declared, is taken to be so long."""
_GIVEN = frozenset({Operator.COLUMN, Operator.CONSTANT})


def check_characters(flow: Flow, rows: int, scalars: Iterable[Scalar], position: Position = NOWHERE) -> None:
    """Refuse operators on texts over the joined rows of a private flow, of which one person has `rows`."""
    scalars = tuple(scalars)
    check_alike(scalars, position)
    total = rows * sum(_characters(scalar) for scalar in scalars)
    if total > MOST_CHARACTERS and any(isinstance(node, Pair) for node in nodes(flow)):
        raise QueryTooLarge(
            f"{position_prefix(position)}this looks at up to {total:,} characters of one person's joined rows.",
            f"More than {MOST_CHARACTERS:,} would let one person's texts decide how long the answer takes.",
            "Cut the texts with LEFT before the join, or join on a column that is unique within a person.",
        )


def _characters(scalar: Scalar) -> int:
    """Return how many characters the operators of a scalar read, for one row."""
    return sum(_read(part) for part in walk(scalar) if part.operator not in _GIVEN)


def _read(part: Scalar) -> int:
    if part.operator is Operator.LEFT:  # it reads no more than it returns
        return _longest(part)
    return sum(_longest(argument) for argument in part.arguments)


def _longest(scalar: Scalar) -> int:
    if scalar.facts.kind is not Kind.TEXT:
        return 0
    return _UNKNOWN if scalar.facts.longest is None else scalar.facts.longest
