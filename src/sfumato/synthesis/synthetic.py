"""Synthetic: what was measured once, for questions that go on. It holds noisy numbers only, and needs no database."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import RLock

import numpy as np
import pyarrow as pa

from sfumato.accounting.event import Event
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter, QueryTooLarge, UnknownName, quote_value
from sfumato.exact import integer
from sfumato.release.receipt import Receipt
from sfumato.synthesis.combining import JointEstimate, combine
from sfumato.synthesis.counting import NoisyMarginals
from sfumato.synthesis.design import MAX_MARGINAL_CELLS, Axes, cells_of
from sfumato.synthesis.domain import Codes, ColumnDomain, Floats
from sfumato.synthesis.editing import fit_rows
from sfumato.synthesis.ids import IdColumn
from sfumato.synthesis.model import Fitted, draw_pool, fit_weights, targets, uniforms
from sfumato.synthesis.parametric_bootstrap import redraw
from sfumato.synthesis.positions import Positions
from sfumato.synthesis.rows import count_rows, shuffle_order, systematic
from sfumato.synthesis.sql_answers import Answer, AnswerContext, answer_query

MAX_DRAWN_ROWS = 10**8
"""Maximum number of rows that can be drawn at once."""
APPROXIMATE = "margins are approximate: which columns were measured together was itself chosen with noise"
NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """Estimated counts of some columns, one axis for each, and how far off they may be."""

    names: tuple[str, ...]
    counts: Floats
    """Unbiased: a cell may be below 0, and none was rounded."""
    margin: float
    """The true count of a cell lies within ± this at 95 %; all cells have the same."""


class Synthetic:
    """A public stand-in for a private table: rows, marginals with margins, and SQL with stated error."""

    def __init__(
        self,
        measured: NoisyMarginals,
        event: Event,
        loss: PrivacyLoss,
        *,
        rows: int | None,
        seconds: float,
        names: tuple[str, ...] | None = None,
        receipt: Receipt | None = None,
        table: str | None = None,
        adaptive: bool = False,
        ids: tuple[IdColumn, ...] = (),
        positions: tuple[Positions, ...] = (),
    ) -> None:
        self.event = event
        self.loss = loss
        self.receipt = receipt
        self.adaptive = adaptive
        """Whether which pairs were measured was itself chosen with noise; then margins are approximate."""
        self.columns = names or measured.names
        """The names of the columns, in the order asked for; they are measured in an order of their own."""
        self.ids = ids
        """Columns of `table()` and `sample()` that name the rows; nothing of them was measured."""
        self.positions = positions
        """Finer histograms of single columns, by which numbers and dates lie inside their cells."""
        self._measured, self._rows, self._seconds, self._table = measured, rows, seconds, table
        self._lock = RLock()

    @property
    def marginals(self) -> tuple[tuple[str, ...], ...]:
        """The columns of every marginal that was measured."""
        return tuple(tuple(self._measured.names[axis] for axis in axes) for axes in self._measured.marginals)

    @property
    def steps(self) -> int:
        """How many steps the fit of the model took."""
        return self._fitted_model.steps

    def marginal(self, names: str | Sequence[str]) -> Marginal:
        """Return the unbiased estimate of the counts of some columns that were measured together, with its margin."""
        axes = self._axes(names)
        ordered = tuple(sorted(axes))
        if not self._joint.knows(ordered):
            raise UnknownName(
                "These columns were not measured together.",
                "An estimate with a margin comes from a measured marginal that holds all of them; see `marginals`.",
                "Use `model` for what the fitted model says of them, or `sql`, which also says how sure that is.",
            )
        counts = np.transpose(self._joint.table(ordered), [ordered.index(axis) for axis in axes])
        marginal_names = tuple(self._measured.names[axis] for axis in axes)
        return Marginal(marginal_names, counts, NORMAL_95 * self._joint.deviation(ordered))

    def model(self, names: str | Sequence[str]) -> Floats:
        """Return the counts of the fitted model on any columns, one axis for each, in the order asked."""
        axes = self._axes(names)
        sizes = [self._measured.sizes[axis] for axis in axes]
        if cells_of(axes, self._measured.sizes) > MAX_MARGINAL_CELLS:
            raise QueryTooLarge(
                f"These columns have more than {MAX_MARGINAL_CELLS:,} cells together.",
                "With this many counts, noise hides each of them.",
                "Ask for fewer columns.",
            )
        fitted = self._fitted_model
        return max(self._joint.total, 0.0) * count_rows([fitted.rows[axis] for axis in axes], sizes, fitted.weights)

    def table(self) -> pa.Table:
        """Return synthetic rows: as many as were asked for, or as the noisy count says. Always the same ones."""
        return self.sample(self._count)

    def sample(self, rows: int) -> pa.Table:
        """Return any number of rows that follow the model. It is free, and the same number gives the same rows."""
        count = integer(rows, "rows", 0)
        if count > MAX_DRAWN_ROWS:
            raise BadParameter(f"rows is above {MAX_DRAWN_ROWS:,}.", "This many do not fit into memory.", "Draw fewer.")
        chosen, seed = self._chosen(count), self._measured.seed
        drawn, inside = {}, {positions.axis: positions for positions in self.positions}
        for axis, (column, codes) in enumerate(zip(self._measured.columns, chosen, strict=True)):
            within = uniforms(seed, f"within {count} {column.name}", count)
            if axis in inside:
                drawn[column.name] = inside[axis].drawn(codes, within, self._joint.table((axis,)))
            else:
                drawn[column.name] = column.drawn(codes, within)
        named = {column.name: column.drawn(count) for column in self.ids}
        return pa.table(named | {name: drawn[name] for name in self.columns})

    def sql(self, text: str) -> Answer:
        """Answer a SELECT of COUNT, SUM or AVG, with a margin for every number. It is free, for ever."""
        notes = (APPROXIMATE,) if self.adaptive else ()
        measured = self._measured
        known = AnswerContext(
            self._table, measured.columns, self._joint, lambda: self._fitted_model, lambda: self._redrawn, notes
        )
        return answer_query(text, known)

    @property
    def total(self) -> float:
        """The estimated number of rows of the private table."""
        return self._joint.total

    def cells_of_rows(self) -> tuple[tuple[ColumnDomain, ...], list[Codes]]:
        """Return the columns, and in which cell of each the rows of `table()` lie."""
        return self._measured.columns, self._chosen(self._count)

    @property
    def _count(self) -> int:
        return max(round(self.total), 0) if self._rows is None else self._rows

    def _chosen(self, count: int) -> list[Codes]:
        """Return the cells of `count` rows, in random order."""
        seed, fitted = self._measured.seed, self._fitted_model
        places = systematic(fitted, count, float(uniforms(seed, f"first {count}", 1)[0]))
        places = places[shuffle_order(count, uniforms(seed, f"order {count}", count))]
        return [column[places] for column in fitted.rows]

    def _axes(self, names: str | Sequence[str]) -> Axes:
        asked = [names] if isinstance(names, str) else list(names) if isinstance(names, Iterable) else []
        known = {name.lower(): index for index, name in enumerate(self._measured.names)}
        for name in asked:
            if not isinstance(name, str) or name.lower() not in known:
                raise UnknownName(
                    f"There is no column {quote_value(name)} here.",
                    "Only the columns that were measured can be asked for.",
                    f"There are: {', '.join(self.columns)}.",
                )
        axes = tuple(known[name.lower()] for name in asked)
        if not axes or len(set(axes)) < len(axes):
            raise BadParameter("Name each column once.", "A table has one axis for each.", "Name one or more columns.")
        return axes

    @cached_property
    def _joint(self) -> JointEstimate:
        measured = self._measured
        return combine(measured.sizes, measured.marginals, measured.sigma_squared, measured.tables)

    @cached_property
    def _fitted_model(self) -> Fitted:
        """Fit the model on first use; it is a function of the stored numbers."""
        with self._lock:
            if "_fitted_model" in self.__dict__:
                fitted: Fitted = self.__dict__["_fitted_model"]
                return fitted
            goals, sizes = targets(self._joint), self._measured.sizes
            if self.adaptive:
                return fit_rows(goals, sizes, self._measured.seed, seconds=self._seconds)
            rows, drawn = draw_pool(goals, sizes, self._measured.seed)
            weights, _, steps = fit_weights(rows, goals, sizes, start=np.log(drawn), seconds=self._seconds)
            return Fitted(rows, weights, steps)

    @cached_property
    def _redrawn(self) -> list[tuple[float, Floats]]:
        """Return the model as it might have come out with other noise, for the margins of what it says."""
        fitted = self._fitted_model
        return redraw(self._joint, fitted, self._measured.seed, self._seconds)

    def __getstate__(self) -> dict[str, object]:
        """Return the pickled state, which is public."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, kept: dict[str, object]) -> None:
        self.__dict__.update({"ids": (), "positions": ()} | kept)
        self._lock = RLock()

    def __repr__(self) -> str:
        return f"Synthetic({', '.join(self.columns)}; {len(self.marginals)} marginals; {self.loss})"
