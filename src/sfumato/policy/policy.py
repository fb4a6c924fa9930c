"""A policy as frozen data: whom we protect, how far values reach, which keys are public, and how much may be spent.

`reading.read_policy` is the only constructor: it refuses missing and contradictory entries, so that nothing here
checks again. Names match whatever their case, as unquoted names do in PostgreSQL: see `fold_name`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from sfumato.accounting.event import Neighbours
from sfumato.caches import SameObjects
from sfumato.policy.server_settings import DEFAULT_SERVER, Identity, ServerSettings
from sfumato.sensitivity.grid import Grid

Value = bool | int | Fraction | str | date | datetime
"""A value of a column, exact: integers as `int`, decimals as `Fraction`; there is no float and no NULL."""

Named = TypeVar("Named")

_FIRST_DAY = date(1970, 1, 1)
_FIRST_INSTANT = datetime(1970, 1, 1)
_ASCII = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}


def fold_name(name: str) -> str:
    """Return the form in which names are compared: A to Z in lower case, everything else as it is.

    PostgreSQL folds unquoted names so in UTF-8 databases; here quoted names are compared in the same way, and a
    policy in which two names differ only in case is refused, so a name never has two meanings.

    >>> fold_name("Patient_ID"), fold_name("Größe")
    ('patient_id', 'größe')
    """
    return name.lower() if name.isascii() else name.translate(_ASCII)


def by_folded_name(named: Iterable[tuple[str, Named]]) -> Mapping[str, Named]:
    """Return what has names by the names' folded form, so that finding one of many takes no longer than one of few.

    Of several whose names differ only in case, the first counts.
    """
    found: dict[str, Named] = {}
    for name, one in named:
        found.setdefault(fold_name(name), one)
    return found


class ColumnType(StrEnum):
    """Type of a column, independent of its storage in the source."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TEXT = "text"


def position(value: Value) -> int | Fraction:
    """Return a number, date or timestamp as a number: days since 1970-01-01, microseconds since its midnight.

    >>> position(date(1970, 1, 2)), position(datetime(1970, 1, 1, 0, 0, 1)), position(Fraction(1, 10))
    (1, 1000000, Fraction(1, 10))
    """
    if isinstance(value, datetime):  # before date: a datetime is one
        return (value - _FIRST_INSTANT) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _FIRST_DAY).days
    if isinstance(value, str):
        raise TypeError("text has no position")
    return value


MAX_CHARGES_PER_ACCOUNT = 100_000
"""Maximum number of charges of one account, unless the policy says another: tiny prices cannot fill the disk."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest value that counts; values beyond are clipped to them."""

    low: Value
    high: Value


@dataclass(frozen=True, slots=True)
class Reference:
    """A column of a public table."""

    table: str
    column: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column that queries may use: its type, the range of its values, and its public keys."""

    name: str
    type: ColumnType
    bounds: Bounds | None = None
    step: Fraction | None = None
    """The grid of a decimal, 1 for an integer, None for other types and for a decimal that is only counted."""
    values: tuple[Value, ...] | Reference | None = None
    """The public keys: listed, or the values of a public table's column. An empty tuple: the values of a table that the
    reader of this policy may not use."""
    unique: bool = False
    """Within one privacy unit each value is kept once."""
    length: int | None = None
    """Maximum number of characters of a text; None for other types and for undeclared text."""
    joins: bool = False
    """A sealed store is shown which rows have equal values of it, so that tables can be joined by it."""
    format: str | None = None
    """How a date or timestamp is written where the source stores text; None means as ISO 8601 writes it."""
    bounds_chosen: bool = False
    """Each question finds the bounds that it clips at privately, within `bounds`."""
    total_per_unit: Fraction | None = None
    """The most that one person adds to a sum of the column, over all rows; what they have beyond does not count."""

    @property
    def grid(self) -> Grid | None:
        """The integers that stand for the values, or None where nothing bounds them.

        They are multiples of the step, days since 1970-01-01, microseconds since its midnight, or 0 and 1. The
        bounds are themselves on the grid and fit 64 bits; `reading` refuses others, so nothing is rounded here.
        """
        if self.type is ColumnType.BOOLEAN:
            return Grid(Fraction(0), Fraction(1), Fraction(1))
        if self.bounds is None:
            return None
        low, high = Fraction(position(self.bounds.low)), Fraction(position(self.bounds.high))
        return Grid(low, high, Fraction(1) if self.step is None else self.step)

    def steps(self, value: Value) -> int:
        """Return the integer that stands for a declared value that is no text."""
        return int(Fraction(position(value)) / (self.step or 1))


@dataclass(frozen=True, slots=True)
class UnitColumn:
    """The person is named by a column of the same table."""

    column: str


@dataclass(frozen=True, slots=True)
class UnitPath:
    """The person is named by `column` of `table`, in the row whose `there` equals this table's `here`."""

    table: str
    column: str
    here: str
    there: str


@dataclass(frozen=True, slots=True)
class RowUnit:
    """Each row is a person of its own."""


@dataclass(frozen=True, slots=True)
class HiddenUnit:
    """The person is named by a column that the reader of this policy may not use: see `rights.visible_policy`."""


@dataclass(frozen=True, slots=True)
class OwnerPair:
    """Each row belongs to two people: to one of two kinds each, or to two of the same kind."""

    owners: tuple[UnitColumn | UnitPath, UnitColumn | UnitPath]
    kinds: tuple[str, str] | None = None
    """The name of each kind of people; None where both owners are of the same kind."""

    @property
    def distinguishes_kinds(self) -> bool:
        """Whether owners of two kinds that have the same id are two people.

        Where a path finds one of them they are one: the table that it leads to tells people apart by their id alone, so
        a person who leaves it leaves here under both kinds.  Proof: proofs/two_owners.md, (9)
        """
        return self.kinds is not None and not any(isinstance(owner, UnitPath) for owner in self.owners)


PrivacyUnit = UnitColumn | UnitPath | RowUnit | HiddenUnit | OwnerPair


@dataclass(frozen=True, slots=True)
class SealedTable:
    """Columns of a table that the store of ciphertexts holds."""

    cells: tuple[str, ...]
    measures: tuple[str, ...]
    squares: tuple[str, ...]
    """The measures of which a variance can be asked."""
    nulls: tuple[str, ...]
    """The measures that may be NULL."""
    splayed: tuple[str, ...]
    capacity: int
    """The most rows of one cell, dummies included."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the source: public, or protected in its privacy unit."""

    name: str
    columns: tuple[Column, ...]
    """Columns a query may name. A public table may omit them: then the columns of the source count."""
    unit: PrivacyUnit | None
    """Whom we protect; None for a public table."""
    rows_per_unit: int | None
    """The most rows that one unit keeps; None for a public table."""
    groups_per_unit: int | None = None
    """The most groups that one unit may touch in one answer; None where only the rows bound them."""
    sealed: SealedTable | None = None
    """Sealed columns, in a policy with [sealed]."""
    stored: str | None = None
    """Name in the source, SCHEMA.TABLE or TABLE, where it differs."""
    rows_chosen: bool = False
    """Each question finds how many rows of a person count privately, up to `rows_per_unit`."""
    groups_chosen: bool = False
    """Each question that counts people finds in how many groups one counts privately, up to `groups_per_unit`."""
    _named: Mapping[str, Column] = field(init=False, repr=False, compare=False)

    @property
    def public(self) -> bool:
        """Whether the table contains no personal data."""
        return self.unit is None

    @property
    def has_two_owners(self) -> bool:
        """Whether each row belongs to two people."""
        return isinstance(self.unit, OwnerPair)

    def names_people(self, column: str) -> bool:
        """Whether a column names the person of each row, or one of its two people."""
        owners = self.unit.owners if isinstance(self.unit, OwnerPair) else (self.unit,)
        return any(isinstance(owner, UnitColumn) and fold_name(owner.column) == fold_name(column) for owner in owners)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_named", by_folded_name((column.name, column) for column in self.columns))

    def column(self, name: str) -> Column | None:
        """Return the column of this name in any case, or None."""
        return self._named.get(fold_name(name))


class Period(StrEnum):
    """How long a window lasts in which a cap holds. Windows are of UTC; a week begins on Monday."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that all answers together may cost, and the delta of a query that names none."""

    epsilon: Fraction
    delta: Fraction
    query_delta: Fraction
    truncation: Fraction | None = None
    """Epsilon spent once per snapshot to measure truncation losses; None to measure none."""
    charges: int = MAX_CHARGES_PER_ACCOUNT
    """Maximum number of charges of each account."""
    every: Period | None = None
    """The cap holds in each such window, and nothing bounds all windows together; None: for the ledger's lifetime."""
    lifetime: str | None = None
    """UNLIMITED, which the owner has to write where the cap renews."""


UNLIMITED = "unlimited"
"""What `budget.lifetime` says where no cap holds over all windows."""
ALL_COLUMNS = "*"
"""Stands for every column of a table in the rights of a role."""


@dataclass(frozen=True, slots=True)
class Role:
    """What several analysts may use, and the caps of those who name none of their own."""

    name: str
    tables: tuple[str, ...] | None = None
    """Folded names of the tables that it may use; None for all."""
    columns: tuple[tuple[str, str], ...] | None = None
    """The columns that it may use, by folded names of table and column; None for all of its tables."""
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    price: str | None = None
    every: Period | None = None

    def may_use_table(self, table: str) -> bool:
        """Whether questions may name a table, by its folded name."""
        return self.tables is None or table in self.tables

    def may_use_column(self, table: str, column: str) -> bool:
        """Whether questions may name a column, by folded names."""
        if not self.may_use_table(table):
            return False
        return self.columns is None or (table, ALL_COLUMNS) in self.columns or (table, column) in self.columns


class CohortCap(StrEnum):
    """What the cap of an analyst limits where people have budgets by cohort."""

    EACH = "each"
    """The charges of each cohort for themselves."""
    TOGETHER = "together"
    """All charges, whichever cohorts pay."""


@dataclass(frozen=True, slots=True)
class Analyst:
    """Someone with a budget of their own inside the dataset's; where it is larger, the dataset's cap still holds."""

    name: str
    epsilon: Fraction
    delta: Fraction
    price: str | None = None
    """The price of a question that names none: a share such as "1%", or an epsilon. It promises nothing."""
    roles: tuple[str, ...] = ()
    """Names of the roles that say what the analyst may use; without one, everything."""
    every: Period | None = None
    """The cap renews with each such window; None: it holds for the lifetime of the ledger."""
    cohorts: CohortCap = CohortCap.EACH
    """Whether each cohort of people has the cap for itself, or all together."""

    @property
    def price_target(self) -> dict[str, str]:
        """The price as an argument of `ask`; empty where there is none."""
        if self.price is None:
            return {}
        return {"share" if self.price.endswith("%") else "epsilon": self.price}


@dataclass(frozen=True, slots=True)
class Location:
    """Where data or a ledger lies. Only the scheme is ever shown: the rest may hold a path or a password."""

    scheme: str
    target: str = field(repr=False)
    """Text after the scheme, or the whole URL."""
    path: Path | None = field(repr=False)
    """The absolute path of a file or folder; None where the target is not one."""
    frames: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    """The frames that were handed over as the source, by table. Their content at the time of a snapshot counts."""
    policy_file: Path | None = field(default=None, repr=False, compare=False)
    """The file of the policy, for what belongs to a ledger on a server and is kept in files; None without one."""


@dataclass(frozen=True, slots=True)
class Sealing:
    """Where the key and the ciphertexts lie, what the padded sizes cost, and how surely a change is noticed."""

    key: Location
    store: Location
    epsilon: Fraction
    delta: Fraction
    integrity: int
    """A store that changes an answer is believed with a probability of at most 2^-integrity."""
    accept_leak: bool = False
    """Whether columns may be joined by, which shows the store who has how many rows."""


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How the CSV files of a source are written: said by the owner, and never guessed from what people's rows hold."""

    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    """Decimal separator."""
    null: tuple[str, ...] = ()
    """Texts that mean that there is no value, unquoted; an empty field always does."""
    thousands: str = ""
    """The separator of groups of three digits; empty where there is none."""
    symbols: tuple[str, ...] = ()
    """Signs and words beside a number that are not read, such as % and €."""
    true: tuple[str, ...] = ()
    """Words for true, in any case, beside those of SQL."""
    false: tuple[str, ...] = ()
    """Words for false, in any case, beside those of SQL."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What an engine may use on this machine; None: what the machine has."""

    memory: int | None = None
    """In bytes."""
    threads: int | None = None
    temp: str | None = None
    """The folder for what does not fit into memory: an absolute path, once the policy is read."""


DEFAULT_ENGINE = EngineSettings()


PLAIN = CsvFormat()
"""Default format: commas, UTF-8, a decimal point."""


class Refresh(StrEnum):
    """When another snapshot of the source is taken."""

    MANUAL = "manual"
    ON_CHANGE = "on-change"


class Sharing(StrEnum):
    """Whether accounts share stored releases."""

    SEPARATE = "separate"
    """A stored release is free for the account that paid for it."""
    SHARED = "shared"
    """Every account of the dataset."""


class Preview(StrEnum):
    """What a tool gets that asks for the first rows of a private table."""

    REFUSED = "refused"
    """A refusal with an example of a question that is answered."""
    SYNTHETIC = "synthetic"
    """Made-up rows that follow the policy, with a column that marks them."""


@dataclass(frozen=True, slots=True)
class Cohort:
    """The column that says which people share a budget; with `every`, the window in which its first value lies."""

    table: str
    column: str
    every: Period | None = None

    def __str__(self) -> str:
        named = f"{self.table}.{self.column}"
        return named if self.every is None else f'first({named}, "{self.every}")'


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything the owner promised, in one immutable value."""

    name: str
    source: Location
    ledger: Location
    neighbours: Neighbours
    budget: Budget
    tables: tuple[Table, ...]
    analysts: tuple[Analyst, ...]
    refresh: Refresh = Refresh.MANUAL
    sealed: Sealing | None = None
    """The sealed store, which then is the source, too."""
    padding: Fraction | None = None
    """Answers of a server leave at multiples of this number of seconds; None: when they are ready."""
    answers: Sharing = Sharing.SEPARATE
    preview: Preview = Preview.REFUSED
    csv: CsvFormat = PLAIN
    server: ServerSettings = DEFAULT_SERVER
    identity: Identity | None = None
    engine: EngineSettings = DEFAULT_ENGINE
    roles: tuple[Role, ...] = ()
    owners: tuple[str, ...] = ()
    """Names of the people who may use a server as the data owner."""
    cohort: Cohort | None = None
    """By which people have separate budgets; None: all share one."""

    def table(self, name: str) -> Table | None:
        """Return the table of this name in any case, or None."""
        return _by_name(SameObjects(self.tables)).get(fold_name(name))

    def analyst(self, name: str) -> Analyst | None:
        """Return the analyst of this name in any case, or None."""
        return _by_name(SameObjects(self.analysts)).get(fold_name(name))

    def default_price(self, account: str) -> str | None:
        """Return what a question of an account costs that names no price; None where it must name one."""
        analyst = self.analyst(account) if account else None
        return None if analyst is None else analyst.price

    def role(self, name: str) -> Role | None:
        """Return the role of this name in any case, or None."""
        return _by_name(SameObjects(self.roles)).get(fold_name(name))


@lru_cache(maxsize=64)
def _by_name(named: SameObjects) -> dict[str, Any]:
    """Return tables, analysts or roles by their folded names: of a thousand analysts, each is found at once."""
    return {fold_name(source.name): source for source in reversed(named.objects[0])}
