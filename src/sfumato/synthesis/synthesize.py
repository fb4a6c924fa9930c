"""From a private table to a public one: declare, charge once, measure marginals, and never touch the data again.

This file can be called: `from sfumato.synthesis import synthesize` gives it, and it does what its function does.
"""

import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import ModuleType
from typing import Any
from zlib import compress, decompress

import numpy as np
import pyarrow as pa

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.database import Database
from sfumato.errors import BadParameter, UnknownName, quote_value
from sfumato.exact import integer, positive, typed_rational
from sfumato.measure import MeasurementRequest, Measurer, SumStatement, measure, prepare_measurement
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.policy.policy import fold_name
from sfumato.randomness.source import Source, read_exactly, system_source
from sfumato.synthesis.combining import Counts
from sfumato.synthesis.counting import SEED_BYTES, NoisyMarginals, count_marginal, present_codes, with_noise
from sfumato.synthesis.declared import cell_key, column_of, names_among, select_declared_columns, with_nulls
from sfumato.synthesis.design import Axes, Design, all_marginals, all_pairs, read_price, sensitivity_squared
from sfumato.synthesis.domain import ColumnDomain, Nullable, Stepped, read_domain
from sfumato.synthesis.ids import declared_ids, read_ids
from sfumato.synthesis.positions import FineColumns, Positions, columns_with_positions
from sfumato.synthesis.selecting import Selection, all_pairs_fit, make_selection, select
from sfumato.synthesis.synthetic import MAX_DRAWN_ROWS, Synthetic

MAX_BINS = 1000


def synthesize(
    db: Database,
    table: str,
    *,
    columns: Sequence[str],
    epsilon: object,
    delta: object,
    rows: int | None = None,
    seconds: float = 60,
    bins: int = 16,
    nulls: Sequence[str] = (),
    ids: Sequence[str] = (),
    positions: Sequence[str] = (),
) -> Synthetic:
    """Return a synthetic table of some columns of a private one, charged once; the same again is free and equal.

    Domains come from the policy: declared values, booleans, bounded numbers and dates, the latter cut into `bins` equal
    cells unless they have fewer values. NULL is a value of the columns that `nulls` names; rows with NULL in another
    column are left out. `ids` names columns that hold a fresh id for each row, and are not measured. `positions` names
    columns of numbers or dates whose place inside their cells is measured, too. The names of ids, the order of the
    columns, `rows` and `seconds` do not make it another question.
    Proof: proofs/marginals.md
    """
    wanted, limit = read_size_and_seconds(rows, seconds)
    cells = integer(bins, "bins", 1)
    if cells > MAX_BINS:
        raise BadParameter(
            f"bins is above {MAX_BINS}.", "This many cells would contain only noise.", "Give fewer bins."
        )
    names, sql = select_declared_columns(db, table, columns)
    nullable, named = names_among(names, nulls, "nulls"), declared_ids(db, table, ids, names)
    placed = names_among(names, positions, "positions")
    measurable = prepare_measurement(db, sql)
    plain = measurable.rows.columns
    present = [column_of(db, table, key, cells) for key in plain]
    held = tuple(Nullable(column) if column.name in nullable else column for column in present)
    if nullable:
        measurable = prepare_measurement(db, with_nulls(plain, held, table))
    sizes, fine = tuple(column.size for column in held), columns_with_positions(held, placed)
    price, allowed = read_price(epsilon, delta)
    most, neighbours = measurable.rows.most, measurable.rows.neighbours
    plan = _plan_measurements(sizes, price, allowed, most, neighbours, len(fine))
    shown = measurable.rows.columns
    keys = [cell_key(*parts) for parts in zip(shown, held, plain, strict=True)]

    def _statement(axes: Axes) -> SumStatement:
        return SumStatement(tuple(keys[axis] for axis in axes), (None,))

    finer_statements = [SumStatement((cell_key(shown[axis], column, plain[axis]),), (None,)) for axis, column in fine]

    for axes in (
        plan.marginals if isinstance(plan, Design) else (*all_marginals(len(sizes))[: len(sizes)], *plan.candidates)
    ):
        measurable.check(_statement(axes))
    for statement in finer_statements:
        measurable.check(statement)
    moved = sensitivity_squared(most, neighbours)

    def _release(measurer: Measurer) -> object:
        def _exact(axes: Axes) -> Counts:
            return measurer.totals(_statement(axes))[:, 0].reshape([sizes[axis] for axis in axes])

        def _noisy(axes: Axes, variance: Fraction) -> Counts:
            return measurer.noisy(_exact(axes), Gaussian(moved, variance, neighbours))

        marginals, variances, tables = _measure_marginals(plan, sizes, _exact, _noisy, measurer.source)
        inside = [
            measurer.noisy(measurer.totals(statement)[:, 0], Gaussian(moved, read_fine_variance(plan), neighbours))
            for statement in finer_statements
        ]
        seed = read_exactly(measurer.source, SEED_BYTES).hex()
        released = {"marginals": marginals, "counts": _pack_tables(tables), "seed": seed}
        released |= {"positions": _pack_tables(inside)} if inside else {}
        return released | ({"variances": list(map(str, variances))} if isinstance(plan, Selection) else {})

    loss = PrivacyLoss(price, allowed)
    earlier = (plan.earlier.event,) if isinstance(plan, Selection) and not fine else ()
    parameters: dict[str, object] = {"sizes": sizes}
    if fine:
        parameters["positions"] = [[axis, column.size] for axis, column in fine]
    if any(isinstance(column, Stepped) and column.least != 0 for column in present):
        parameters["cells"] = "from the low end"  # up to 0.14 such columns were counted in wrong cells
    request = MeasurementRequest("synthesize", parameters, plan.event, loss, earlier)
    found = measure(db, measurable, request, _release)
    return Synthetic(
        _unpack_tables(found.released, held, plan),
        plan.event,
        loss,
        rows=wanted,
        seconds=limit,
        names=tuple(names),
        receipt=found.receipt,
        table=fold_name(table),
        adaptive=isinstance(plan, Selection),
        ids=named,
        positions=_unpack_positions(found.released, held, fine, plan),
    )


def _plan_measurements(
    sizes: tuple[int, ...], price: Fraction, allowed: Fraction, rows: int, neighbours: Neighbours, fine: int
) -> Design | Selection:
    """Plan the measurements from sizes and price only: all pairs if they fit, otherwise rounds of selection."""
    if all_pairs_fit(sizes) or len(sizes) < 3:
        return all_pairs(sizes, price, allowed, rows, neighbours, fine)
    return make_selection(sizes, price, allowed, rows, neighbours, fine)


def read_fine_variance(plan: Design | Selection) -> Fraction:
    """Return the variance of the finer histograms of a plan that has some."""
    if plan.fine_variance is None:
        raise AssertionError("planned without positions")
    return plan.fine_variance


def _measure_marginals(
    plan: Design | Selection,
    sizes: tuple[int, ...],
    exact: Callable[[Axes], Counts],
    noisy: Callable[[Axes, Fraction], Counts],
    source: Source,
) -> tuple[Sequence[Axes], Sequence[Fraction], Sequence[Counts]]:
    """Return marginals with their variances and their noisy counts."""
    if isinstance(plan, Selection):
        return select(plan, sizes, exact, noisy, source)
    parts = zip(plan.marginals, plan.sigma_squared, strict=True)
    return plan.marginals, plan.sigma_squared, [noisy(axes, variance) for axes, variance in parts]


def _pack_tables(tables: Sequence[Any]) -> str:
    flat = np.concatenate([np.asarray(table).ravel() for table in tables]).astype("<i8")
    return b64encode(compress(flat.tobytes(), 6)).decode("ascii")


def _unpack_tables(stored: Any, columns: tuple[ColumnDomain, ...], plan: Design | Selection) -> NoisyMarginals:
    """Read a stored release: the same numbers give the same table."""
    flat = np.frombuffer(decompress(b64decode(stored["counts"])), dtype="<i8").astype(np.int64)
    marginals = tuple(tuple(axes) for axes in stored["marginals"])
    shapes = [tuple(columns[axis].size for axis in axes) for axes in marginals]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    tables = tuple(part.reshape(shape) for part, shape in zip(np.split(flat, ends), shapes, strict=True))
    if isinstance(plan, Design):
        variances = plan.sigma_squared
    elif "variances" in stored:
        variances = tuple(map(Fraction, stored["variances"]))
    else:
        earlier = plan.earlier
        variances = tuple(earlier.one_way if len(axes) == 1 else earlier.pair for axes in marginals)
    return NoisyMarginals(columns, marginals, variances, tables, bytes.fromhex(stored["seed"]))


def _unpack_positions(
    stored: Any, columns: tuple[ColumnDomain, ...], fine: FineColumns, plan: Design | Selection
) -> tuple[Positions, ...]:
    if not fine:
        return ()
    flat = np.frombuffer(decompress(b64decode(stored["positions"])), dtype="<i8").astype(np.int64)
    ends = np.cumsum([column.size for _, column in fine])[:-1]
    return _positions(columns, fine, np.split(flat, ends), plan)


def _positions(
    columns: tuple[ColumnDomain, ...], fine: FineColumns, tables: Sequence[Counts], plan: Design | Selection
) -> tuple[Positions, ...]:
    variance = read_fine_variance(plan) if fine else Fraction(0)
    return tuple(
        Positions(axis, columns[axis], column, table, variance)
        for (axis, column), table in zip(fine, tables, strict=True)
    )


def synthesize_table(
    data: Any,
    domain: Mapping[str, object],
    *,
    epsilon: object,
    delta: object,
    groups: object = None,
    rows: int | None = None,
    seconds: float = 60,
    nulls: Sequence[str] = (),
    ids: Sequence[str] = (),
    positions: Sequence[str] = (),
) -> Synthetic:
    """Return a synthetic table of columns that are given as sequences, by name, without a ledger.

    `domain` is the public domain of each column: a list of values, or a `Range`. `groups` names the unit of each row,
    of which one row counts; without it each row is a unit. None and NaN are a value of the columns that `nulls` names,
    and make a row absent in others. `ids` names columns of fresh ids for the synthetic rows, `positions` columns of
    numbers or dates whose place inside their cells is measured, too. The result depends on the data through noise only.
    Proof: proofs/marginals.md
    """
    return _synthesize_table(
        data, domain, epsilon, delta, groups, rows, seconds, system_source(), nulls, ids, positions
    )


def _synthesize_table(
    data: Any,
    domain: Mapping[str, object],
    epsilon: object,
    delta: object,
    groups: object,
    rows: int | None,
    seconds: float,
    source: Source,
    nulls: Sequence[str] = (),
    ids: Sequence[str] = (),
    positions: Sequence[str] = (),
) -> Synthetic:
    present = read_domain(domain)
    names = [column.name for column in present]
    nullable, named = names_among(names, nulls, "nulls"), read_ids(ids, names)
    placed = names_among(names, positions, "positions")
    columns: tuple[ColumnDomain, ...] = tuple(
        Nullable(column) if column.name in nullable else column for column in present
    )
    data = dict(zip(data.column_names, data.columns, strict=True)) if isinstance(data, pa.Table) else data
    if not hasattr(data, "__contains__") or not hasattr(data, "__getitem__"):
        raise BadParameter("data is not a table.", "Its columns are found by their names.", "Give {name: values, …}.")
    for column in columns:
        if column.name not in data:
            raise UnknownName(
                f"The data has no column {quote_value(column.name)}.",
                "The domain names it.",
                "Give a column for each name.",
            )
    declared = {column.name for column in columns}
    for name in data.keys() if hasattr(data, "keys") else ():
        if name not in declared:
            raise UnknownName(
                f"The domain has no column {quote_value(name)}.",
                "The possible values of a column are declared in advance, never read from the data.",
                "Add it to the domain, or leave the column out of the data.",
            )
    wanted, limit = read_size_and_seconds(rows, seconds)
    neighbours = Neighbours.ADD_REMOVE
    sizes, fine = tuple(column.size for column in columns), columns_with_positions(columns, placed)
    price, allowed = read_price(epsilon, delta)
    plan = _plan_measurements(sizes, price, allowed, 1, neighbours, len(fine))
    # from here on data is read, and nothing may be refused
    codes = present_codes(data, (*columns, *(column for _, column in fine)), groups, source)
    moved = sensitivity_squared(1, neighbours)

    def _exact(axes: Axes) -> Counts:
        return count_marginal(codes, axes, sizes)

    def _noisy(axes: Axes, variance: Fraction) -> Counts:
        return with_noise(_exact(axes), moved, variance, neighbours, source)

    marginals, variances, tables = _measure_marginals(plan, sizes, _exact, _noisy, source)
    inside = [
        with_noise(
            count_marginal(codes, (at,), (*sizes, *(column.size for _, column in fine))),
            moved,
            read_fine_variance(plan),
            neighbours,
            source,
        )
        for at in range(len(columns), len(codes))
    ]
    seed = read_exactly(source, SEED_BYTES)
    measured = NoisyMarginals(columns, tuple(marginals), tuple(variances), tuple(tables), seed)
    loss, adaptive = PrivacyLoss(price, allowed), isinstance(plan, Selection)
    return Synthetic(
        measured,
        plan.event,
        loss,
        rows=wanted,
        seconds=limit,
        adaptive=adaptive,
        ids=named,
        positions=_positions(columns, fine, inside, plan),
    )


def read_size_and_seconds(rows: object, seconds: object) -> tuple[int | None, float]:
    """Read how many rows are wanted, and how long a fit may take."""
    wanted = None if rows is None else integer(rows, "rows", 0)
    if wanted is not None and wanted > MAX_DRAWN_ROWS:
        raise BadParameter(f"rows is above {MAX_DRAWN_ROWS:,}.", "This many do not fit into memory.", "Ask for fewer.")
    return wanted, float(positive(typed_rational(seconds, "seconds"), "seconds"))


class _Callable(ModuleType):
    """A module that can be called like the function of its name."""

    def __call__(self, *arguments: Any, **named: Any) -> Synthetic:
        return synthesize(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
