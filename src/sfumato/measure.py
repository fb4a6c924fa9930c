"""How an extension package measures through the database: declare, charge, read integers, add noise, store the release.

An extension package (`learn`, `synthesis`) turns a question that shows rows into something public, in three steps::

    asked = prepare_measurement(database, "SELECT age, bmi FROM visits")  # from the text alone, or refused; free
    declared = MeasurementRequest("learn.PCA", parameters, event, loss)  # from parameters and `asked.rows` alone
    measured = measure(database, asked, declared, release)  # one charge, durable before `release` runs

`release(reading)` runs inside the charge. It reads `reading.totals(...)`, integers in public cells that the engine adds
up, or `reading.columns(...)`, the integer columns of every row; gives `reading.noisy(...)` what one person moves by no
more than its mechanism says; and returns JSON that is computed from noisy integers alone. That is stored in the ledger
and is what `measured.released` holds: the same question, however it is spelt, is free and equal from then on. The event
must cover all that `release` does, whatever the data: it may choose what to read next by what it has released. What can
be refused is refused before the charge: try every statement with `asked.check`. Proof: proofs/measuring.md
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Event, to_json
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse_rows
from sfumato.analysis.private_query import Contribution, Group, Key, PrivateQuery, PrivateRows
from sfumato.database import Database
from sfumato.engines.engine import Engine
from sfumato.errors import BadParameter, QueryTooLarge, UnsupportedSql
from sfumato.language.facts import Kind
from sfumato.language.rel_nodes import InputNode, ProjectNode, RelNode
from sfumato.language.scalar import Scalar
from sfumato.ledger.charge import Charge
from sfumato.ledger.payer import ChargedRelease
from sfumato.mechanisms.answers import Answers
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.planning.fingerprint import tables_read
from sfumato.planning.plan import GroupPlan, Plan, PlannedMeasurement
from sfumato.policy.canonical import tables_digest
from sfumato.query.aggregate import Aggregate
from sfumato.query.canonical import canonical
from sfumato.query.functions import Aggregation
from sfumato.query.parse import parse
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.entropy import entropy_bits
from sfumato.randomness.source import Metered, Source, declared_gamma
from sfumato.release.receipt import Receipt, receipt_from_json, receipt_to_json
from sfumato.sensitivity.norms import Sensitivity

_LABEL = "measured"
_TRIAL_DRAWS = 4096
"""How many numbers are drawn once more, and thrown away, to estimate how many bits such noise takes."""

_MAX_STEPS = 1 << 62

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SumStatement:
    """One statement: in every cell of the keys the number of rows (None) or the sum of an INTEGER scalar.

    Every key has its `cells`: absent cells hold 0, other values of a key are dropped. `rows` are those of the question,
    or a flow of one row for each of some of them, such as a `ProjectNode` that computes columns which several sums use.
    """

    keys: tuple[Key, ...]
    sums: tuple[Scalar | None, ...]
    rows: RelNode | None = None
    unit: Scalar | None = None
    """The owner of a row of that flow; None with the rows of the question."""


@dataclass(frozen=True, slots=True)
class ColumnStatement:
    """One statement: INTEGER, BOOLEAN or TEXT columns of every row, and an opaque number of its person."""

    columns: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class SecretColumns:
    """The rows of a statement, secret: integers, one array per column, and whose they are, from 0 on.

    A column with cells holds the number of the cell, others hold steps. The order of the rows means nothing.
    """

    columns: tuple[Integers, ...]
    people: Integers

    def __repr__(self) -> str:
        return f"Table({len(self.columns)} columns)"


@dataclass(frozen=True, slots=True)
class Measurable:
    """A question whose rows can be measured: everything that is known before the charge."""

    sql: str
    rows: PrivateRows
    identity: str = field(repr=False)
    """The meaning of the text, with the policy digest of its tables."""
    engine: Engine = field(repr=False, compare=False)
    """The snapshot that is measured, also if another one takes its place meanwhile."""

    def check(self, statement: SumStatement | ColumnStatement) -> None:
        """Refuse what the engine could not run. No data is read."""
        self.prepare(statement)

    def prepare(self, statement: SumStatement | ColumnStatement) -> Any:
        """Return what the engine will run."""
        rows, unit = self.rows, self.rows.unit
        if isinstance(statement, SumStatement):
            unit = statement.unit or unit
            keys, source = statement.keys, statement.rows or rows.rows
            measured = tuple(_planned_column(f"m{at}", argument, rows) for at, argument in enumerate(statement.sums))
        else:
            keys, source = (
                (*(replace(key, cells=None) for key in statement.columns), Key("unit", rows.unit, None)),
                rows.rows,
            )
            measured = (_planned_column("m0", None, rows),)
        contribution = Contribution(rows.most, rows.most, bound_rows=False, bound_groups=False)
        group = Group(_LABEL, source, unit, rows.identity, keys, (), contribution)
        outcome = ProjectNode(InputNode(_LABEL, (), None), "outcome", ())
        private = PrivateQuery((group,), outcome, (), rows.neighbours, rows.notes)
        self.engine.check(private)
        plan = Plan(private, (GroupPlan(group, None, measured, ()),), _NO_LOSS, None)
        return self.engine.prepare(plan)


_NO_LOSS = PrivacyLoss(Fraction(0))


def _planned_column(name: str, argument: Scalar | None, rows: PrivateRows) -> PlannedMeasurement:
    """Return one column of a statement. Its noise is not the plan's affair: `Measurer.noisy` adds it."""
    quantity = Aggregate(Aggregation.COUNT) if argument is None else Aggregate(Aggregation.SUM, (argument,))
    reach = 1 if argument is None else max(1, abs(argument.facts.low), abs(argument.facts.high))
    moved = 2 * rows.most * reach
    mechanism = Gaussian(moved**2, Fraction(moved**2), rows.neighbours)
    sensitivity = Sensitivity(moved, moved**2, moved, rows.neighbours)
    return PlannedMeasurement(name, quantity, sensitivity, mechanism)


@dataclass(frozen=True, slots=True)
class MeasurementRequest:
    """What is about to be measured, decided before any data is read."""

    tool: str
    """What measures, as `history` shows it before the question: "learn.PCA"."""
    parameters: object
    """JSON of all parameters that change what is released: they belong to the question."""
    event: Event
    loss: PrivacyLoss
    earlier: tuple[Event, ...] = ()
    """The events that older versions declared for the same. Their stored releases are returned, free."""


@dataclass(frozen=True, slots=True)
class PublicResult:
    """What an extension package measured: JSON that is public, and its receipt."""

    released: Any
    receipt: Receipt


class Measurer:
    """The integers behind a charge. Nothing it returns leaves `release` but what went through `noisy`."""

    def __init__(self, asked: Measurable, source: Source) -> None:
        self._asked = asked
        self._drawn: list[tuple[Gaussian | Laplace, int]] = []
        self.source = source

    def totals(self, statement: SumStatement) -> Answers:
        """Return the exact integers, secret: a row per cell (the keys' product, in their order), a column per sum."""
        (found,) = self._asked.engine.run(self._asked.prepare(statement)).groups
        columns = [np.asarray(found.columns[f"m{at}"]) for at in range(len(statement.sums))]
        return np.stack(columns, axis=1) if columns else np.zeros((len(found.keys), 0), dtype=np.int64)

    def columns(self, statement: ColumnStatement) -> SecretColumns:
        """Return the columns of every row, secret."""
        (found,) = self._asked.engine.run(self._asked.prepare(statement)).groups
        times = np.asarray(found.columns["m0"]).astype(np.int64)
        parts = list(zip(*found.keys, strict=True)) or [()] * (len(statement.columns) + 1)
        columns = [_integers(part, key) for part, key in zip(parts[:-1], statement.columns, strict=True)]
        people: dict[object, int] = {}
        numbers = np.array([people.setdefault(person, len(people)) for person in parts[-1]], dtype=np.int64)
        for column, key in zip(columns, statement.columns, strict=True):
            if key.cells is not None:
                times = np.where(column < 0, 0, times)  # in none of the cells: absent
        return SecretColumns(tuple(np.repeat(column, times) for column in columns), np.repeat(numbers, times))

    def noisy(self, values: object, mechanism: Gaussian | Laplace) -> Answers:
        """Return integers with fresh noise on each. How many there are must be public."""
        noisy = mechanism.release(values, self.source)
        self._drawn.append((mechanism, noisy.size))
        return noisy

    def bits(self) -> tuple[int, int]:
        """Return about how many bits noise of this shape reads, and how many it needs: a fact of its shape alone."""
        laws: dict[Gaussian | Laplace, int] = {}
        for mechanism, count in self._drawn:
            laws[mechanism] = laws.get(mechanism, 0) + count
        read = needed = 0.0
        for mechanism, count in laws.items():
            metered, tried = Metered(self.source), min(count, _TRIAL_DRAWS)
            mechanism.release(np.zeros(tried, dtype=np.int64), metered)
            law = (
                DiscreteLaplace(mechanism.scale)
                if isinstance(mechanism, Laplace)
                else DiscreteGaussian(mechanism.sigma_squared)
            )
            read += metered.bits * count / max(tried, 1)
            needed += count * entropy_bits(law)
        return ceil(read), ceil(needed)


def _integers(values: Sequence[Any], key: Key) -> Integers:
    if key.cells is None:
        facts = key.scalar.facts
        return np.clip(np.array(values, dtype=np.int64), facts.low, facts.high)  # whatever is stored
    places = {cell: index for index, cell in enumerate(key.cells)}
    return np.array([places.get(value, -1) for value in values], dtype=np.int64)


def prepare_measurement(database: object, sql: str) -> Measurable:
    """Return a question whose rows can be measured, or refuse it: from text, policy and public tables alone."""
    if not isinstance(database, Database):
        raise BadParameter(
            f"{type(database).__name__} cannot be measured.",
            "Rows are measured through an open database, under its policy.",
            "Give what sfumato.open returned.",
        )
    engine = database.engine
    catalog = database.catalog_of(engine)
    query = parse(sql, catalog)
    with engine.public.one_question():
        rows = analyse_rows(query, catalog, engine.public)
    for key in rows.columns:
        facts = key.scalar.facts
        if key.cells is None and not facts.bounded:
            raise UnsupportedSql(
                f"The values of `{key.name}` are not declared.",
                "Only columns with public values or bounds can be measured.",
                "Ask the owner to declare `values` or `bounds` (and `step`) for it, or leave it out."
                if facts.kind is not Kind.INTEGER
                else "Ask the owner to declare `bounds` for it, or narrow it with LEAST and GREATEST.",
            )
        if facts.kind is Kind.INTEGER and max(-facts.low, facts.high) >= _MAX_STEPS:
            raise QueryTooLarge(
                f"`{key.name}` could reach 2^62 steps.",
                "Measurements are computed in 64 bits.",
                "Narrow it with LEAST and GREATEST.",
            )
    # the names of the columns are the extension package's matter
    meaning = canonical(replace(query, names=tuple(f"c{at}" for at in range(len(query.names)))))
    digest = tables_digest(database.policy, tables_read(query.relation))
    return Measurable(sql, rows, json.dumps([meaning, digest], separators=(",", ":")), engine)


def measure(
    database: Database, asked: Measurable, declared: MeasurementRequest, release: Callable[[Measurer], object]
) -> PublicResult:
    """Charge what was declared, run `release` behind the charge, store what it returns; the same again is free.

    Theorem: if `release` is, for the rows of `asked`, what `declared.event` says, then whatever anybody sees of it,
    status and receipt included, is no more; and the charge is durable before a row is read. Proof: proofs/measuring.md
    """
    question, *older = [
        json.dumps(
            ["measured", declared.tool, declared.parameters, asked.identity, to_json(event)],
            separators=(",", ":"),
            sort_keys=True,
        )
        for event in (declared.event, *declared.earlier)
    ]
    payer, version = database.payer, asked.engine.version

    def publish(charge: Charge, source: Source) -> str:
        reading = Measurer(asked, source)
        released = release(reading)
        bits, needed = reading.bits()
        receipt = Receipt(
            charge.receipt,
            payer.policy,
            version,
            declared.loss,
            charge.sequence,
            charge.head,
            bits,
            source=payer.source.name,
            gamma=declared_gamma(payer.source),
            needed=needed,
        )
        return json.dumps({"receipt": receipt_to_json(receipt), "measured": released}, allow_nan=False)

    text = f"{declared.tool}: {asked.sql}"
    charged = ChargedRelease(question, text, declared.event, declared.loss, version, older=tuple(older))
    return _read(payer.charge_and_publish(charged, publish))


def _read(stored: str) -> PublicResult:
    data = json.loads(stored)
    return PublicResult(data["measured"], receipt_from_json(data["receipt"]))
