"""All rows that a flow can have, whatever the noise: what each column is there, and what decides about each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np

from sfumato.language.facts import Facts, Kind
from sfumato.language.rel_nodes import UnionAllNode, outputs
from sfumato.language.scalar import Scalar, column
from sfumato.language.scalar import columns_read as columns_read
from sfumato.release.decode import EngineValue
from sfumato.release.intervals.extension import decided, unknown
from sfumato.release.intervals.form_algebra import stacked
from sfumato.release.intervals.forms import Exact, NoiseForm, Opaque, States, Truth, merged
from sfumato.release.intervals.measured_cells import MeasuredCells
from sfumato.release.intervals.row_forms import FormTable, JoinedForms, exact_form
from sfumato.release.intervals.tracing import PossibleFlow, written_out

RowColumns = tuple[dict[str, Sequence[EngineValue]], dict[str, NoiseForm]]
"""Exact columns as an engine keeps them, and the forms of the others."""


@dataclass(frozen=True, slots=True)
class PossibleRows:
    """The rows below a computed table, and the noisy conditions under which each of them is there."""

    loose: PossibleFlow
    joined: JoinedForms
    conditions: tuple[Truth, ...]

    @property
    def places(self) -> dict[tuple[EngineValue, ...], int]:
        """Which row comes from these rows of the tables below."""
        sides = [self.joined.places[given.label].tolist() for given in self.loose.tables]
        return {row: at for at, row in enumerate(zip(*sides, strict=True))}

    def inlined(self, scalar: Scalar) -> Scalar | None:
        """Return a scalar in terms of the tables' columns; None where it is too large."""
        return written_out(scalar, self.loose.origins)

    def exact(self, scalars: Sequence[Scalar]) -> list[Scalar] | None:
        """Return scalars in terms of the tables' columns if none of them has noise."""
        found = [self.inlined(scalar) for scalar in scalars]
        known = [scalar for scalar in found if scalar is not None and not self.joined.noisy(scalar)]
        return known if len(known) == len(scalars) else None

    def form(self, scalar: Scalar) -> NoiseForm:
        """Return what a scalar is, row by row."""
        written = self.inlined(scalar)
        return unknown_form(scalar.facts, self.joined.rows) if written is None else self.joined.forms([written])[0]

    def columns(self, named: Sequence[tuple[str, str, Facts]]) -> RowColumns:
        """Return the columns of the flow."""
        exact: dict[str, Sequence[EngineValue]] = {}
        forms: dict[str, NoiseForm] = {}
        for label, name, facts in named:
            scalar = column(label, name, facts)
            known = self.exact([scalar])
            if known is not None:
                exact[name] = self.joined.exact_columns(known)[0]
            else:
                forms[name] = self.form(scalar)
        return exact, forms

    def measured(self, scalars: Mapping[str, Scalar]) -> frozenset[str]:
        """Return the names of those that do not come from keys and literals alone."""
        found = {name: self.inlined(scalar) for name, scalar in scalars.items()}
        tables = self.joined.tables
        return frozenset(
            name
            for name, scalar in found.items()
            if scalar is None or any(part in tables[label].measured for label, part in columns_read(scalar))
        )


def unknown_form(facts: Facts, rows: int) -> NoiseForm:
    """Return a column of which nothing is known but its facts."""
    return unknown(facts, rows) if facts.kind in {Kind.INTEGER, Kind.REAL} else Opaque(rows, has_no_interval=True)


def settled_values(form: NoiseForm, facts: Facts) -> list[EngineValue] | None:
    """Return the values of a form without noise as an engine keeps them; None where there is noise."""
    if not isinstance(form, Exact) or facts.kind not in {Kind.INTEGER, Kind.REAL}:
        return None
    whole = facts.kind is Kind.INTEGER
    return [None if np.isnan(value) else int(value) if whole else value for value in form.values.tolist()]


def stacked_table(node: UnionAllNode, left: PossibleRows, right: PossibleRows, cells: MeasuredCells) -> FormTable:
    """Return the rows of both sides, the left ones first."""
    sides = (left, node.left), (right, node.right)
    sizes = left.joined.rows, right.joined.rows
    exact: dict[str, Sequence[EngineValue]] = {}
    forms: dict[str, NoiseForm] = {}
    for at, (_, name, facts) in enumerate(outputs(node)):
        items = [show.items[at].scalar for _, show in sides]
        known = [rows.exact([item]) for (rows, _), item in zip(sides, items, strict=True)]
        parts: list[NoiseForm] = []
        values: list[Sequence[EngineValue]] = []
        for (rows, _), item, plain in zip(sides, items, known, strict=True):
            if plain is None:
                parts.append(rows.form(item))
            else:
                values.append(rows.joined.exact_columns(plain)[0])
                parts.append(exact_form(values[-1], facts, rows.joined.rows))
        if len(values) == len(sides):
            exact[name] = [*values[0], *values[1]]
        else:
            forms[name] = stacked(parts[0], parts[1], sizes, cells)
    conditions = [_together(rows) for rows, _ in sides]
    present = stacked(conditions[0], conditions[1], sizes, cells) if left.conditions or right.conditions else None
    keys = _keys(left, right)
    shown = (present,) if isinstance(present, Truth) else ()
    tables = {**left.joined.tables, **right.joined.tables}
    measured = [rows.measured({item.name: item.scalar for item in show.items}) for rows, show in sides]
    return FormTable(sum(sizes), exact, forms, shown, keys, measured[0] | measured[1], tables)


def _together(rows: PossibleRows) -> Truth:
    """Return whether a row is there: whether all its conditions are true."""
    if not rows.conditions:
        return decided([True] * rows.joined.rows)

    def states(tail: Fraction) -> States:
        known = [condition.states(tail) for condition in rows.conditions]
        true = reduce(np.logical_and, [one.true for one in known])
        surely = reduce(np.logical_and, [~one.false & ~one.null for one in known])
        return States(true, ~surely, np.zeros_like(true))

    return Truth(
        merged([condition.events for condition in rows.conditions]),
        states,
        any(condition.has_no_interval for condition in rows.conditions),
    )


def _keys(left: PossibleRows, right: PossibleRows) -> Mapping[tuple[EngineValue, ...], int]:
    """Return which row comes from these rows of the tables of both sides; of the other side it has none."""
    before, behind = (-1,) * len(left.loose.tables), (-1,) * len(right.loose.tables)
    first = {(*row, *behind): at for row, at in left.places.items()}
    return {**first, **{(*before, *row): at + left.joined.rows for row, at in right.places.items()}}
