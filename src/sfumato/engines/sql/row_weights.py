"""Quantiles whose rows leave the engine, and are counted and added up in arrays: see `RowForm`.

A row weighs an equal part of what its owner's rows weigh together. Without keys, rows come as columns of integers, some
at a time: counting the rows of each person in an array of people takes far less than a window over ids, and adding up
an array of values far less than grouping by them. The weights are the same integers.  Proof: proofs/lineage.md §6
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.analysis.private_query import Group
from sfumato.diagnostics import record_engine_failure
from sfumato.engines.aggregates import BucketWeights
from sfumato.engines.sql.auxiliary_columns import Hidden, with_auxiliary_column
from sfumato.engines.sql.dialect import Dialect
from sfumato.engines.sql.names import PERSON
from sfumato.engines.sql.value_counts import column_of, counted_rows
from sfumato.errors import EngineFailed
from sfumato.language.facts import Facts, Kind
from sfumato.language.outside import is_stored, stored
from sfumato.language.rel_nodes import RelNode, ScanNode
from sfumato.language.scalar import Scalar
from sfumato.mechanisms.spacing import Spacing
from sfumato.planning.plan import PlannedSelection
from sfumato.query.types import Type

if TYPE_CHECKING:
    import pyarrow as pa

MAX_PEOPLE = 1 << 28
"""Numbers of people are below this: the array of their rows fits into memory."""
MAX_ADDED_VALUES = 1 << 20
"""Maximum number of values of a column that is added up by value, and by bucket afterwards."""
KEPT_ROWS = 1 << 23
"""Maximum number of rows kept between counting the rows of each person and weighing them; more are read twice."""
_TABLED_ROWS = 1 << 16

Integers = npt.NDArray[np.int64]
_Places = npt.NDArray[np.integer[Any]]
_NOTHING: _Places = np.zeros(0, dtype=np.int64)
Batches = Iterator["pa.RecordBatch"]


def _any_number(_read: ScanNode) -> Facts:
    return Facts(Type.INTEGER, Kind.INTEGER, nullable=False, low=0, high=(1 << 32) - 1)


_PEOPLE = Hidden(lambda _: PERSON, lambda read: read.people, _any_number)


@dataclass(frozen=True, slots=True)
class RowForm:
    """How the rows of a choice leave the engine: a value each and, where people have several, what tells their part.

    That is how many rows of the owner count (`own`), where the copy knows, or else the number of the owner (`person`).
    Where there are keys, the rows of each cell come as a list of integers that hold both.
    """

    rows: RelNode
    value: Scalar
    """A number of a bucket or, with a `spacing`, a value that lies in one; clipped to its facts where it is read."""
    low: int
    span: int
    spacing: Spacing | None
    own: Scalar | None
    person: Scalar | None
    listed: bool

    @property
    def second_column(self) -> Scalar | None:
        """The column beside the value."""
        return self.own or self.person


def row_form(group: Group, one: PlannedSelection, dialect: Dialect) -> RowForm | None:
    """Return how rows leave the engine; None where buckets are added up there. Text, policy and copy decide it."""
    if dialect.listed is None:
        return None
    rows, own, person = group.rows, None, None
    if group.contribution.rows > 1:
        counted = counted_rows(group, one)
        if counted is not None and counted.whole:
            rows, own = counted.rows, counted.count
        elif group.identity and (found := with_auxiliary_column(rows, group.unit, _PEOPLE)) is not None:
            rows, person = found
        else:
            return None
    (bucket,) = one.quantity.arguments
    if group.keys:
        return None if person is None else RowForm(rows, bucket, 0, bucket.facts.span, None, own, person, listed=True)
    column = column_of(bucket)
    if column is None or column.facts.span > MAX_ADDED_VALUES:
        return RowForm(rows, bucket, 0, bucket.facts.span, None, own, person, listed=False)
    low, high = column.facts.low, column.facts.high
    value = stored(column) if is_stored(column) else column
    return RowForm(rows, value, low, column.facts.span, Spacing(low, high), own, person, listed=False)


def held_in_rows(read: Callable[[], Batches], form: RowForm, weight: int) -> BucketWeights:
    """Return what is in the buckets of the only cell; `read` gives its rows, the same ones each time."""
    sums = np.zeros(form.span, dtype=np.int64)
    if form.person is not None:
        _add_by_person(read, form, weight, sums)
    else:
        for values, beside in _integers(read, form):
            np.add.at(sums, values, np.int64(weight) if form.own is None else _parts(weight, beside))
    values = np.flatnonzero(sums)
    sums = sums[values]
    if form.spacing is not None:
        buckets = form.spacing.numbers(values + form.low)
        values, starts = np.unique(buckets, return_index=True)
        sums = np.add.reduceat(sums, starts) if len(starts) else sums
    return BucketWeights(np.zeros(len(values), dtype=np.int64), values, sums)


def _add_by_person(read: Callable[[], Batches], form: RowForm, weight: int, sums: Integers) -> None:
    """Add the weight of each row to that of its value: how many rows its owner has is counted first."""
    own, kept, size = np.zeros(0, dtype=np.int64), list[tuple[_Places, _Places]](), 0
    for values, people in _integers(read, form):
        own = with_counts(own, people)
        size += len(values)
        kept.append((values, people))
        if size > KEPT_ROWS:
            kept.clear()
    weights = _parts(weight, own)
    for values, people in kept if size <= KEPT_ROWS else _integers(read, form):
        np.add.at(sums, values, weights[people])


def with_counts(own: Integers, people: "_Places") -> Integers:
    """Return how many rows each person has, with these rows; people are numbered from 0."""
    most = int(people.max(initial=0))
    if most >= MAX_PEOPLE:
        record_engine_failure("A person has a number beyond those that a copy gives.")
        raise EngineFailed()
    if most >= len(own):
        own = np.concatenate([own, np.zeros(max(most + 1 - len(own), len(own)), dtype=np.int64)])
    np.add.at(own, people, np.int64(1))
    return own


def _parts(weight: int, own: _Places) -> Integers:
    """Return the weight of each row, where the `own` rows of its person weigh `weight` together."""
    most = int(own.max(initial=0))
    if most >= _TABLED_ROWS:
        return weight // np.maximum(own.astype(np.int64), 1)
    return np.asarray((weight // np.maximum(np.arange(most + 1, dtype=np.int64), 1))[own])


def _integers(read: Callable[[], Batches], form: RowForm) -> Iterator[tuple[_Places, _Places]]:
    """Give rows as places among the values, and what is beside them or nothing."""
    for batch in read():
        values, *beside = (column.to_numpy() for column in batch.columns)
        # the range that was priced, whatever is stored
        if len(values) and (values.min() < form.low or values.max() >= form.low + form.span):
            values = np.clip(values, form.low, form.low + form.span - 1)
        values = values - form.low if form.low else values
        yield values.astype(np.int32), beside[0] if beside else _NOTHING
