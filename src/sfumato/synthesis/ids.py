"""Ids of synthetic rows: a new one in every row. They number the rows, and have nothing to do with people."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.database import Database
from sfumato.errors import BadParameter, UnknownName, quote_value
from sfumato.policy.policy import ColumnType, fold_name


@dataclass(frozen=True, slots=True)
class IdColumn:
    """A column that names synthetic rows: whole numbers from 1, or texts with such a number."""

    name: str
    text: bool = False

    def drawn(self, count: int) -> pa.Array:
        """Return the ids of `count` rows.

        >>> IdColumn("visit", text=True).drawn(2).to_pylist()
        ['synthetic-1', 'synthetic-2']
        """
        if self.text:
            return pa.array([f"synthetic-{number}" for number in range(1, count + 1)], pa.string())
        return pa.array(np.arange(1, count + 1, dtype=np.int64))


def read_ids(said: object, measured: Sequence[str]) -> tuple[IdColumn, ...]:
    """Read names of id columns of a table that is given as arrays."""
    if (
        isinstance(said, str)
        or not isinstance(said, Sequence)
        or not all(isinstance(name, str) and name for name in said)
    ):
        raise BadParameter("ids is not a list of names.", "Each names a column of fresh ids.", 'Write ids=["id"].')
    taken = [*map(fold_name, measured), *map(fold_name, said)]
    if len(set(taken)) < len(taken):
        raise BadParameter(
            "ids names a column twice, or one that is measured.",
            "An id is generated, and a measured column follows the data.",
            "Name columns that are in neither list yet.",
        )
    return tuple(map(IdColumn, said))


def declared_ids(database: Database, table: str, said: object, measured: Sequence[str]) -> tuple[IdColumn, ...]:
    """Read names of id columns of a table of the policy: integers or texts, also the one that names people."""
    owner, found = database.visible_policy.table(table), []
    for asked in read_ids(said, measured):
        column = None if owner is None else owner.column(asked.name)
        if column is None:
            raise UnknownName(
                f"There is no column {quote_value(asked.name)} in {table}.",
                "Ids are made for columns that the policy declares, so that they have its type.",
                "Check the name, or add the ids to the rows yourself.",
            )
        if column.type not in (ColumnType.INTEGER, ColumnType.TEXT):
            raise BadParameter(
                f"{quote_value(column.name)} cannot be an id.",
                f"Ids are integers or texts, and it is {column.type.value}.",
                "Measure the column, or leave it out.",
            )
        found.append(IdColumn(column.name, column.type is ColumnType.TEXT))
    return tuple(found)
