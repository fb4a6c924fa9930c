"""The scalars of a row-local flow as forms. The engine computes exact values; everything else is computed here."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.engines.post_processing.values import Values
from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import InputNode, Item, ProjectNode, RelNode
from sfumato.language.scalar import Operator, Scalar, column, columns_read
from sfumato.query.types import Type
from sfumato.release.decode import EngineValue
from sfumato.release.intervals.extension import boxed, decided, finished_quotient, is_exact, sides, within
from sfumato.release.intervals.form_algebra import added, chosen, divided, gathered, missed, multiplied
from sfumato.release.intervals.forms import Affine, EnclosedNumbers, Ends, Exact, NoiseForm, Opaque, Ratio, Truth
from sfumato.release.intervals.measured_cells import Indices, MeasuredCells
from sfumato.release.intervals.tracing import ColumnScalars, written_out

Evaluate = Callable[[RelNode, Mapping[str, Mapping[str, Values]]], list[list[Any]]]
"""What runs a flow over given tables and returns its columns: `engines.after_noise.evaluate`."""

_FLAT = "exact"
_NUMBERS = frozenset({Kind.INTEGER, Kind.REAL})
_DIVISIONS = frozenset({Operator.DIVIDE, Operator.QUOTIENT})


@dataclass(frozen=True, slots=True)
class FormTable:
    """Rows that a row-local flow is made of: exact columns as an engine keeps them, the others as forms."""

    rows: int
    exact: Mapping[str, Sequence[EngineValue]]
    forms: Mapping[str, NoiseForm]
    present: tuple[Truth, ...] = ()
    """The noisy conditions under which each row is there."""
    keys: Mapping[tuple[EngineValue, ...], int] = field(default_factory=dict)
    """Of an aggregate: which row has these keys. Of rows kept one by one: which comes from these rows below."""
    measured: frozenset[str] = frozenset()
    """The columns that do not come from keys and literals alone."""
    below: Mapping[str, "FormTable"] = field(default_factory=dict)
    """Of rows kept one by one: the tables that they come from."""
    open: bool = False
    """Whether it is unknown which rows there are."""


@dataclass(frozen=True, slots=True)
class JoinedForms:
    """The rows of a row-local flow: for each table where they come from, -1 where a left join met none."""

    tables: Mapping[str, FormTable]
    places: Mapping[str, Indices]
    rows: int
    evaluate: Evaluate
    cells: MeasuredCells
    noise_dependent_tables: frozenset[str] = frozenset()
    """The tables of which a left join met a row, or none, because of noise."""
    _known: dict[tuple[str, str], NoiseForm] = field(default_factory=dict)

    def noisy(self, scalar: Scalar) -> bool:
        """Whether a scalar depends on more than exact columns."""
        return any(name not in self.tables[label].exact for label, name in columns_read(scalar))

    def forms(self, scalars: Sequence[Scalar]) -> list[NoiseForm]:
        """Return the form of each scalar."""
        exact = {id(part): part for scalar in scalars for part in self._exact_parts(scalar)}
        known: dict[int, NoiseForm] = dict(zip(exact, self._computed(list(exact.values())), strict=True))
        return [self._form(scalar, known) for scalar in scalars]

    def leaf(self, label: str, name: str) -> NoiseForm:
        """Return a noisy column of a table, for these rows."""
        if (label, name) not in self._known:
            if self.tables[label].rows == 0:  # nothing but rows that a left join met none of
                found: NoiseForm = Exact(np.full(self.rows, np.nan))
            else:
                found = gathered(self.tables[label].forms[name], self.places[label], label)
            absent = self.places[label] < 0
            self._known[label, name] = (
                missed(found, absent) if label in self.noise_dependent_tables and absent.any() else found
            )
        return self._known[label, name]

    def present(self) -> tuple[Truth, ...]:
        """Return the conditions under which the rows of the tables are there."""
        found = []
        for label, table in self.tables.items():
            for condition in table.present:
                form = gathered(condition, self.places[label], label)
                found += [form] if isinstance(form, Truth) else []
        return tuple(found)

    def _exact_parts(self, scalar: Scalar) -> Iterator[Scalar]:
        """Give the largest parts without noise."""
        if not self.noisy(scalar):
            yield scalar
        else:
            for argument in scalar.arguments:
                yield from self._exact_parts(argument)

    def _computed(self, scalars: Sequence[Scalar]) -> list[NoiseForm]:
        values = self.exact_columns(scalars)
        return [exact_form(value, scalar.facts, self.rows) for value, scalar in zip(values, scalars, strict=True)]

    def exact_columns(self, scalars: Sequence[Scalar]) -> list[Sequence[EngineValue]]:
        """Return scalars without noise; the engine computes all that are more than a column or a literal."""
        values: dict[int, Sequence[EngineValue]] = {}
        waiting = []
        for index, scalar in enumerate(scalars):
            if scalar.operator is Operator.CONSTANT and not isinstance(scalar.constant, tuple):
                values[index] = [scalar.constant] * self.rows
            elif scalar.operator is Operator.COLUMN:
                values[index] = self.exact_values(*next(iter(columns_read(scalar))))
            else:
                waiting.append(index)
        if waiting and self.rows:
            values |= dict(zip(waiting, self._evaluated([scalars[place] for place in waiting]), strict=True))
        return [values.get(index, ()) for index in range(len(scalars))]

    def _evaluated(self, scalars: Sequence[Scalar]) -> list[list[EngineValue]]:
        used = sorted(set().union(*(columns_read(scalar) for scalar in scalars)))
        facts = {name: part.facts for scalar in scalars for part in _columns_of(scalar) for name in columns_read(part)}
        names = {name: str(number) for number, name in enumerate(used)}
        origins: ColumnScalars = {name: column(_FLAT, names[name], facts[name]) for name in used}
        place = Facts(Type.INTEGER, Kind.INTEGER, nullable=False, high=self.rows)
        given = InputNode(_FLAT, (*((names[name], facts[name]) for name in used), ("row", place)), None)
        table: dict[str, Values] = {names[name]: self.exact_values(*name) for name in used}
        table["row"] = np.arange(self.rows)
        written = [written_out(scalar, origins) for scalar in scalars]
        items = tuple(Item(str(at), scalar) for at, scalar in enumerate(written) if scalar is not None)
        *found, at = self.evaluate(
            ProjectNode(given, "values", (*items, Item("row", column(_FLAT, "row", place)))), {_FLAT: table}
        )
        order = np.argsort(np.array(at, dtype=np.int64), kind="stable").tolist()
        return [[values[row] for row in order] for values in found]

    def exact_values(self, label: str, name: str) -> list[EngineValue]:
        """Return an exact column of a table, for these rows."""
        values = self.tables[label].exact[name]
        return [None if place < 0 else values[place] for place in self.places[label].tolist()]

    def _form(self, scalar: Scalar, known: dict[int, NoiseForm]) -> NoiseForm:
        if id(scalar) not in known:  # the same part has the same form, and so the same events
            known[id(scalar)] = self._made(scalar, known)
        return known[id(scalar)]

    def _made(self, scalar: Scalar, known: dict[int, NoiseForm]) -> NoiseForm:
        if not self.noisy(scalar):  # a part of an exact part
            return self._computed([scalar])[0]
        if scalar.operator is Operator.COLUMN:
            return self.leaf(*next(iter(columns_read(scalar))))
        arguments = [self._form(argument, known) for argument in scalar.arguments]
        linear = self._linear(scalar, arguments)
        if linear is not None:
            return linear
        if scalar.operator in _DIVISIONS:
            divisor = scalar.arguments[1]
            if _is_null_for_zero(divisor) and self.noisy(divisor):
                divisor = divisor.arguments[0]  # a quotient by 0 is NULL anyway
            ratio = divided(arguments[0], self._form(divisor, known))
            if ratio is not None:
                plain = scalar.facts.kind is Kind.REAL and scalar.operator is Operator.DIVIDE
                return ratio if plain else _finished(scalar, ratio)
        return boxed(scalar, arguments, self.rows)

    def _linear(self, scalar: Scalar, arguments: list[NoiseForm]) -> NoiseForm | None:
        """Return a form whose law is known, where the operator keeps it so for all values that the truth can have."""
        match scalar.operator:
            case Operator.ADD:
                return added(arguments[0], arguments[1])
            case Operator.SUBTRACT:
                return added(arguments[0], arguments[1], -1.0)
            case Operator.MULTIPLY:
                return multiplied(arguments[0], arguments[1])
            case Operator.NEGATE:
                return multiplied(arguments[0], Exact(np.full(self.rows, -1.0)))
            case Operator.REAL:
                match scalar.constant:
                    case (int(numerator), int(denominator)):
                        return multiplied(arguments[0], Exact(np.full(self.rows, numerator / denominator)))
            case Operator.ABS | Operator.GREATEST | Operator.LEAST | Operator.CLIPPED | Operator.COALESCE:
                return _unchanged(scalar, arguments)
            case Operator.CASE if all(is_exact(form) for form in arguments[:-1:2]):
                return self._case(arguments)
        return None

    def _case(self, arguments: list[NoiseForm]) -> NoiseForm | None:
        """Return a choice that has no noise between sums."""
        choices = np.full(self.rows, len(arguments) // 2)
        for index in range(len(arguments) // 2 - 1, -1, -1):
            condition = arguments[2 * index]
            if not isinstance(condition, Truth):
                return None
            choices = np.where(condition.states(Fraction(1)).true, index, choices)
        return chosen([*arguments[1:-1:2], arguments[-1]], choices, self.cells)


def exact_form(values: Sequence[EngineValue], facts: Facts, rows: int) -> NoiseForm:
    """Return values without noise as a form."""
    if facts.kind is Kind.BOOLEAN:
        return decided([value if isinstance(value, bool) else None for value in values])
    if facts.kind in _NUMBERS:
        return Exact(np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64))
    codes: dict[EngineValue, float] = {None: np.nan}
    return Opaque(rows, codes=np.array([codes.setdefault(value, len(codes)) for value in values], dtype=np.float64))


def _is_null_for_zero(scalar: Scalar) -> bool:
    """Whether a scalar is NULLIF(…, 0)."""
    if scalar.operator is not Operator.NULLIF:
        return False
    zero = scalar.arguments[1]
    return zero.operator is Operator.CONSTANT and zero.constant == 0


def _columns_of(scalar: Scalar) -> Iterator[Scalar]:
    if scalar.operator is Operator.COLUMN:
        yield scalar
    for argument in scalar.arguments:
        yield from _columns_of(argument)


def _finished(scalar: Scalar, ratio: Exact | Affine | Ratio) -> EnclosedNumbers:
    """Return a quotient that is rounded to a grid."""

    def ends(tail: Fraction) -> Ends:
        return within(finished_quotient(scalar, ratio.ends(tail)), scalar.facts)

    return EnclosedNumbers(ratio.events, ratio.null_events, ends, ratio.nulls)


def _reach(form: NoiseForm) -> Ends | None:
    """Return what a form can be, whatever the data, where it is never NULL."""
    match form:
        case Exact(values) if not np.isnan(values).any():
            return values, values
        case Affine(absent=None):
            return form.reach
        case Ratio():
            return form.least, form.most
    return None


def _unchanged(scalar: Scalar, arguments: list[NoiseForm]) -> NoiseForm | None:
    """Return the argument that the operator surely returns, by what the truth can be: a count is never below 0."""
    first, reaches = arguments[0], [_reach(form) for form in arguments]
    known = [reach for reach in reaches if reach is not None]
    always = isinstance(first, Affine) and first.absent is None
    if len(known) < len(reaches):
        return first if scalar.operator is Operator.COALESCE and always else None
    match scalar.operator:
        case Operator.COALESCE:
            return first if always else None
        case Operator.ABS:
            return first if bool((known[0][0] >= 0).all()) else None
        case Operator.CLIPPED:
            least, most = sides(scalar)
            return first if bool(((known[0][0] >= least) & (known[0][1] <= most)).all()) else None
    if any(isinstance(form, Ratio) for form in arguments) and len(arguments) > 1:
        return None  # where one is NULL, the other counts
    largest = scalar.operator is Operator.GREATEST
    for index, (low, high) in enumerate(known):
        others = [reach for at, reach in enumerate(known) if at != index]
        if all(bool(((low >= other[1]) if largest else (high <= other[0])).all()) for other in others):
            return arguments[index]
    return None
