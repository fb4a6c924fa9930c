"""MIN and MAX over people are refused: the extreme value is one person's own."""

from typing import NoReturn

from sfumato.analysis.private_query import Asked, Group
from sfumato.errors import UnsupportedSql
from sfumato.planning.aggregates.wording import as_written, own_name
from sfumato.query.functions import Aggregation


def extreme(asked: Asked, group: Group) -> NoReturn:
    """Refuse, with the question that is answered instead."""
    sign = "<" if asked.aggregate.function is Aggregation.MIN else ">"
    beyond = f"{own_name(asked.aggregate.argument, group)} {sign} THRESHOLD"
    raise UnsupportedSql(
        f"{as_written(asked)} is not answered.",
        "The extreme value is one person's own, and noise on it would have to cover the whole range.",
        f"Count the rows beyond a threshold instead: COUNT(*) FILTER (WHERE {beyond}).",
    )
