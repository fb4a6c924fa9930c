"""Dialect: everything in which engines that speak SQL differ, one entry each. All else is the same in every engine.

A statement is written once, in `scalar`, `flow`, `fold`, `group`, `public` and `copy`; an engine is a table of entries.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sfumato.language.facts import Facts, Kind
from sfumato.language.scalar import Operator, Scalar
from sfumato.query.functions import Aggregation

Form = Callable[[Scalar, list[str]], str]
"""The SQL of an operator, from the SQL of its arguments."""

Given = Callable[[Sequence[str], Callable[..., str]], str]
"""SQL from the SQL of some values, and of what is made of them under the names that they get."""


@dataclass(frozen=True, slots=True)
class RankPartitions:
    """Rows that are ranked in parts, each person in one of them."""

    rows: int
    """About how many rows are in a part."""
    part: Callable[[str, int], str]
    """A number below the second, by an id: the same part for the same person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByWindow:
    """Rows on the grid are written down, and windows over them select rows: `bounded_copy`."""

    row_locator: str
    """The column that tells the rows of one intermediate table apart."""
    rank_partitions: RankPartitions | None = None
    """In which parts rows are ranked, so that a part fits into little memory; None where all are ranked at once."""
    pair_hash: Callable[[str, str], str] | None = None
    """An integer of two values, equal where both are, to find pairs that may repeat: see `bounding.value_repeats`.

    None where the copy does not say in how many rows a person has a value of an undeclared key."""
    numbers_people: bool = False
    """Whether the copy numbers people, so that a client finds out by arrays which rows have one owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByTwoScans(ByWindow):
    """The source is read for the people who have too many rows and again for the others: `bounding.by_two_scans`.

    This suits engines that take longer to write rows than to read them twice. Where a row is needed twice, they are
    written down as `ByWindow` says.
    """

    optimizer_fence: str
    """A column that is selected into a nested query so that its values are not computed again where they are
    mentioned."""
    hash_cutoff: Callable[[int, str], str]
    """A draw below which, of n long draws, the given number lies on average; all of them if n is less."""
    repeat_row: Callable[[str], str]
    """A column of a SELECT that returns each row as often as an integer says, and numbers these rows from 1."""


@dataclass(frozen=True, slots=True)
class ByShuffle:
    """Rows are sent to where others of their person are, and ranked there: `bounding.by_shuffle`.

    This suits engines that spread rows over machines. No row is written down in between.
    """

    repartition: Callable[[str, str], str]
    """A query whose rows are sent to where those with the same name are."""


Bounding = ByWindow | ByTwoScans | ByShuffle
"""The ways to bound what a person contributes. All of them keep the same rows (proofs/bounded_copy.md §3)."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's SQL."""

    name: str
    operator_sql: Mapping[Operator, Form]
    """A form for every operator but COLUMN. It mentions each argument once, or nested forms grow exponentially."""
    quote_identifier: Callable[[str], str]
    """A name as an identifier."""
    text_literal: Callable[[str], str]
    """A text as a constant."""

    let: Given
    """SQL over values that it may mention more than once: they are computed once where that matters to the engine."""

    # ── numbers ──
    double: str
    """The type of doubles."""
    integer_type: Callable[[Facts], str]
    """The type of an INTEGER kind with these facts."""
    integer: Callable[[int, str], str]
    """An integer as a constant of this type."""
    wide: str
    """An integer type of at least 127 bits and a sign, for sums and what is computed from them."""
    quotient: Callable[[str, str], str]
    """Of two wide integers, towards zero; NULL is NULL, and the divisor is never zero."""
    remainder: Callable[[str, str], str]
    """The remainder of `quotient`, with the sign of the dividend."""
    floor_divide: Callable[[str, str], str]
    """The quotient of two positive BIGINTs, rounded down, as a BIGINT."""
    whole_double: Callable[[str], str]
    """A double that is a whole number, as a wide integer, exactly."""
    truncated: Callable[[str], str]
    """A finite double without its places."""
    bigint: str
    """The type of integers of 64 bits with a sign."""
    to_bigint_or_null: Callable[[str], str]
    """A wide integer as a BIGINT; NULL beyond 64 bits."""
    is_finite: Callable[[str], str]
    """Whether a double is neither infinite nor no number."""

    # ── rows ──
    sortable: Callable[[str, Kind], str]
    """A value as it stands in ORDER BY: texts by code point."""
    aggregate: Callable[[Aggregation, str, Facts, bool], str]
    """An aggregate of a value with these facts, of its distinct values only if the last is true. Sums are exact."""
    filtered: Callable[[str, str], str]
    """An aggregate over only those rows for which a condition is true."""
    bit_or: Callable[[str], str]
    """The aggregate of BIGINTs that holds every bit which one of them holds."""
    listed: Callable[[str], str] | None
    """The aggregate that lists the values of all rows, in any order; None where a client would read lists slowly."""
    row_number: Callable[[Sequence[str], Sequence[str]], str]
    """The number of a row among those that agree in the first, in the order of the second; both may be empty.

    Where the first is empty, some engines give numbers that are distinct and no more."""
    power_of_two: Callable[[str], str]
    """2 to the power of an integer from 0 to 60, as a BIGINT."""
    popcount: Callable[[str], str]
    """How many bits of a BIGINT that is not negative are 1, as a BIGINT: statements add several of them."""
    hash48: Callable[[str], str]
    """The first 48 bits of SHA-256 of a text in UTF-8, in any form that is ordered as these bits are."""
    scalar_text: Callable[[str, Kind], str]
    """A value of this kind as a text, the same in every engine: a double by its 64 bits in hexadecimal."""
    utf8_length: Callable[[str], str]
    """How many bytes a text has, in UTF-8."""

    # ── the bounded copy ──
    id_type: str
    """The type of opaque ids: 128 bits, compared as unsigned bytes are."""
    text_type: str
    rank_type: str
    """The type of the numbers that rows have within one person."""
    hash128: Callable[[str], str]
    """The first 128 bits of SHA-256 of a text in UTF-8, as an id."""
    id_text: Callable[[str], str]
    """An id in hexadecimal, in capitals and without leading zeros."""
    hash128_sortable: Callable[[str], str]
    """The first 128 bits of SHA-256 of a text in UTF-8, in any form that is ordered as these bits are."""
    long_draw_text: Callable[[str], str]
    """Such a draw in hexadecimal, in capitals and without leading zeros."""
    bounding: Bounding
    """How people who have too many rows get a bounded number of them."""
    stored_by_unit: bool
    """Whether rows lie in the order of ids, in which they are numbered, rather than with those that have equal keys:
    sorting them again takes longer than questions gain."""
    order_by_clause: str
    """How a query says in which order its rows are written: of all of them, or of those that one task writes."""
    numbers_rows: bool
    """Whether the copy has to store NUMBER where each row is a person: the engine has no number of its own."""

    def aggregate_if(self, aggregate: str, condition: str | None) -> str:
        """Return an aggregate over the rows that meet a condition, or over all where there is none."""
        return aggregate if condition is None else self.filtered(aggregate, condition)


Choice = TypeVar("Choice", bound=Bounding)


def bounding_of(dialect: Dialect, kind: type[Choice]) -> Choice:
    """Return the bounding of an engine that chose this kind; to ask another engine for it is a mistake."""
    if not isinstance(dialect.bounding, kind):
        raise AssertionError(f"this engine does not use {kind.__name__}")
    return dialect.bounding
