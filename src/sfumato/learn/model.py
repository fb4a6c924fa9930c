"""What all models share: parameters that are only stored, one charge, arrays or a database, scikit-learn's manners."""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from fractions import Fraction
from inspect import signature
from math import sqrt
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Event
from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.private_query import Key
from sfumato.database import Database
from sfumato.errors import BadParameter, UnsupportedSql, quote_value
from sfumato.language.facts import Kind
from sfumato.learn.arrays import bounded_rows, read_matrix
from sfumato.learn.calibration import Calibrated, Stage, calibrate_stages
from sfumato.learn.rows import Rows, Sums
from sfumato.learn.statements import EngineSums, box
from sfumato.learn.table_metadata import (
    Floats,
    TableMetadata,
    read_bounds,
    read_classes,
    read_loss,
    read_neighbours,
    read_people,
)
from sfumato.measure import ColumnStatement, Measurable, MeasurementRequest, Measurer, measure, prepare_measurement
from sfumato.mechanisms.answers import Answers
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.planning.quote import Quote
from sfumato.randomness.source import Source, system_source
from sfumato.release.decode import decode
from sfumato.release.receipt import Receipt
from sfumato.release.rendering.export import optional

FitState = dict[str, Any]
"""What a fit releases, as JSON: numbers and lists of them, computed from noisy integers alone."""
_MAX_FEATURE_VALUE = 1e300
_MAX_HALF_RANGES = 1e9
"""Rows that a model is applied to are clipped at this number of half ranges, where nothing overflows."""


class Target(Enum):
    """The kind of the last column."""

    NONE = auto()
    NUMBER = auto()
    CLASS = auto()


class StageNoise:
    """Fresh noise for the stages of one fit, in their order; and coins for what is computed afterwards."""

    def __init__(self, fit: Calibrated, add: Callable[[object, Gaussian], Answers], source: Source) -> None:
        self.mechanisms = fit.mechanisms
        self._add = add
        self.source = source

    def add(self, stage: int, values: object) -> Floats:
        """Return the integers of a stage with its noise on each."""
        return np.asarray(self._add(values, self.mechanisms[stage])).astype(np.float64)

    def deviation(self, stage: int) -> float:
        """Return the standard deviation of the noise of a stage."""
        return sqrt(self.mechanisms[stage].sigma_squared)


class Model:
    """A model whose fit is one private release. Subclasses say what is measured and what follows from it."""

    bounds_y: object = None
    classes: object = None

    event_: Event
    loss_: PrivacyLoss
    receipt_: Receipt | None
    n_features_in_: int

    _target: ClassVar[Target] = Target.NONE
    _iterative: ClassVar[bool] = False
    """Whether rows are read inside the charge, because the model looks at them more often than statements could."""

    def __init__(
        self,
        *,
        epsilon: object,
        delta: object,
        bounds: object = None,
        neighbours: object = "add-remove",
        rows_per_person: object = 1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighbours = neighbours
        self.rows_per_person = rows_per_person

    # ── what a subclass says ──

    def _stages(self, outline: TableMetadata) -> tuple[Stage, ...]:
        """Return what is measured, from public facts alone; refuse parameters that mean nothing."""
        raise NotImplementedError

    def _learn(self, sums: Any, outline: TableMetadata, noise: StageNoise) -> FitState:
        """Measure, and return the model. Whatever the rows are, it does not raise and is finite."""
        raise NotImplementedError

    def _keep(self, state: FitState, outline: TableMetadata) -> None:
        """Set the fitted attributes."""
        raise NotImplementedError

    def _parameters(self) -> Mapping[str, object]:
        """Return the parameters that are this model's own: they are part of the question."""
        return {}

    # ── fitting ──

    def fit(self, X: object, y: object = None, groups: object = None) -> Self:  # noqa: N803
        """Fit arrays, or the rows of a question: `fit(db, sql)`, whose last column is the target where there is one."""
        if isinstance(X, Database):
            return self._fit_database(X, y, groups)
        outline = self._outline_of_arrays(X)
        fit, loss = self._calibrated(outline)
        source = system_source()
        rows = bounded_rows(X, y, groups, outline, source)
        noise = StageNoise(fit, lambda values, mechanism: mechanism.release(values, source), source)
        return self._finished(self._learn(rows, outline, noise), outline, fit.event, loss, None)

    def explain(self, db: object, sql: str) -> Quote:
        """Return what `fit(db, sql)` would cost. It reads no private data, is free, and refuses when `fit` would."""
        asked = prepare_measurement(db, sql)
        outline, columns, target = self._outline_of_rows(asked)
        fit, loss = self._calibrated(outline)
        self._try(asked, columns, target, outline, fit)
        words = f"discrete Gaussian noise, {len(fit.mechanisms)} stage{'s' * (len(fit.mechanisms) > 1)}"
        return Quote(loss, {}, {type(self).__name__: words}, asked.rows.notes)

    def _fit_database(self, database: Database, sql: object, groups: object) -> Self:
        if not isinstance(sql, str) or groups is not None:
            raise BadParameter(
                "A fit with a database takes only a question.",
                "The policy says which person each row belongs to.",
                "Write fit(db, 'SELECT … FROM …').",
            )
        asked = prepare_measurement(database, sql)
        outline, columns, target = self._outline_of_rows(asked)
        fit, loss = self._calibrated(outline)
        self._try(asked, columns, target, outline, fit)

        def release(reading: Measurer) -> FitState:
            noise = StageNoise(fit, reading.noisy, reading.source)
            sums: Sums = (
                _rows_behind(reading, columns, target)
                if self._iterative
                else EngineSums(asked, columns, target, reading)
            )
            return self._learn(sums, outline, noise)

        name = f"learn.{type(self).__name__}"
        declared = MeasurementRequest(name, {"target": self._target.name, **self._parameters()}, fit.event, loss)
        done = measure(database, asked, declared, release)
        return self._finished(done.released, outline, fit.event, loss, done.receipt)

    def _try(
        self, asked: Measurable, columns: list[Key], target: Key | None, outline: TableMetadata, fit: Calibrated
    ) -> None:
        """Refuse statements that the engine could not run, by a trial fit on no rows whose noise is discarded."""
        if self._iterative:
            asked.check(ColumnStatement((*columns, *(() if target is None else (target,)))))
            return
        source = system_source()
        noise = StageNoise(fit, lambda values, mechanism: mechanism.release(values, source), source)
        self._learn(EngineSums(asked, columns, target, None), outline, noise)

    def _finished(
        self, state: FitState, outline: TableMetadata, event: Event, loss: PrivacyLoss, receipt: Receipt | None
    ) -> Self:
        self.n_features_in_ = outline.width
        self.event_, self.loss_, self.receipt_ = event, loss, receipt
        self._outline = outline
        self._keep(state, outline)
        return self

    def _calibrated(self, outline: TableMetadata) -> tuple[Calibrated, PrivacyLoss]:
        epsilon, delta = read_loss(self.epsilon, self.delta)
        return calibrate_stages(self._stages(outline), epsilon, delta, outline.neighbours), PrivacyLoss(epsilon, delta)

    def _outline_of_arrays(self, X: object) -> TableMetadata:  # noqa: N803
        width = read_matrix(X).shape[1]
        low, high = read_bounds(self.bounds, width, "bounds")
        classes: tuple[Any, ...] = ()
        if self._target is Target.NUMBER:
            (end,), (other,) = read_bounds(self.bounds_y, 1, "bounds_y")
            low, high = (*low, end), (*high, other)
        if self._target is Target.CLASS:
            classes = read_classes(self.classes)
        numeric, relation = self._target is Target.NUMBER, read_neighbours(self.neighbours)
        return TableMetadata(low, high, classes, numeric, relation, read_people(self.rows_per_person))

    def _outline_of_rows(self, asked: Measurable) -> tuple[TableMetadata, list[Key], Key | None]:
        """Return what the policy says of the rows of a question: its columns as numbers, and the key of the classes."""
        for name in ("bounds", "bounds_y", "classes"):
            if getattr(self, name, None) is not None:
                raise BadParameter(
                    f"{name} is given, and so is a database.",
                    "With a database, bounds and classes come from the policy.",
                    f"Leave {name} out.",
                )
        if read_neighbours(self.neighbours).value != "add-remove" or read_people(self.rows_per_person) != 1:
            raise BadParameter(
                "neighbours or rows_per_person is given, and so is a database.",
                "With a database, both come from the policy.",
                "Leave them out.",
            )
        columns, target = list(asked.rows.columns), None
        if self._target is Target.CLASS:
            target = columns.pop()
            if target.cells is None or not 1 <= len(target.cells) <= 1000:
                raise UnsupportedSql(
                    f"The classes of `{target.name}` are not declared, or too many.",
                    "Which classes occur in the data is not public.",
                    "Ask the owner to declare `values` for it, at most 1,000.",
                )
        if len(columns) <= (self._target is Target.NUMBER):
            raise UnsupportedSql(
                "The question shows too few columns.",
                "A model needs at least one column besides its target, which is the last one.",
                "Select more columns.",
            )
        low, high = zip(*(_key_ends(key) for key in columns), strict=True)
        classes = () if target is None else tuple(decode(cell, target.scalar.facts) for cell in target.cells or ())
        rows = asked.rows
        numeric = self._target is Target.NUMBER
        return TableMetadata(low, high, classes, numeric, rows.neighbours, rows.most), columns, target

    # ── using the model ──

    def _table(self, X: object) -> Floats:  # noqa: N803
        """Read rows to apply the model to. What is missing there is taken to be the middle of its bounds."""
        table = self._columns(X, lambda: self.n_features_in_)
        middle, half = self._outline.middle[: self.n_features_in_], self._outline.half[: self.n_features_in_]
        with np.errstate(over="ignore"):
            low, high = (
                np.clip(middle + side * half, -_MAX_FEATURE_VALUE, _MAX_FEATURE_VALUE)
                for side in (-_MAX_HALF_RANGES, _MAX_HALF_RANGES)
            )
        return np.clip(np.where(np.isnan(table), middle, table), low, high)

    def _columns(self, X: object, count: Callable[[], int]) -> Floats:  # noqa: N803
        """Read rows of as many columns as the fitted model takes."""
        if not hasattr(self, "event_"):
            raise BadParameter("The model is not fitted.", "It knows nothing yet.", "Call fit first.")
        table = read_matrix(X)
        if table.shape[1] != count():
            raise BadParameter(
                f"X has {table.shape[1]} columns, and the model was fitted with {count()}.",
                "Each column has its own weight.",
                "Give the same columns, in the same order.",
            )
        return table

    def _compared(self, y: object, predicted: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Read the targets that predictions are compared with: one for each."""
        try:
            targets = np.asarray(y, dtype=np.float64 if self._target is Target.NUMBER else None)
        except (TypeError, ValueError):
            targets = np.zeros(0)
        if targets.shape == predicted.shape:
            return targets
        raise BadParameter(
            "y is not one target for each row of X.", "Each prediction is compared with its own.", "Give one per row."
        )

    # ── scikit-learn's manners ──

    @classmethod
    def _names(cls) -> list[str]:
        return sorted(name for name in signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters as they were given."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: object) -> Self:
        """Set parameters by name."""
        for name, value in params.items():
            if name not in self._names():
                raise BadParameter(
                    f"{type(self).__name__} has no parameter {quote_value(name)}.",
                    f"It has: {', '.join(self._names())}.",
                    "Give one of these.",
                )
            setattr(self, name, value)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "event_")

    def __sklearn_tags__(self) -> Any:
        utils = optional("sklearn.utils", "learn")
        tags = utils.Tags(
            estimator_type=None,
            target_tags=utils.TargetTags(required=self._target is not Target.NONE),
            input_tags=utils.InputTags(allow_nan=True),
        )
        if self._target is Target.NUMBER:
            tags.estimator_type, tags.regressor_tags = "regressor", utils.RegressorTags()
        if self._target is Target.CLASS:
            tags.estimator_type, tags.classifier_tags = "classifier", utils.ClassifierTags()
        if hasattr(self, "transform"):
            tags.transformer_tags = utils.TransformerTags()
        return tags

    def __repr__(self) -> str:
        given = (f"{name}={quote_value(value)}" for name, value in self.get_params().items() if value is not None)
        return f"{type(self).__name__}({', '.join(given)})"


def _key_ends(key: Key) -> tuple[float, float]:
    facts = key.scalar.facts
    if facts.kind is Kind.BOOLEAN:
        return 0.0, 1.0
    if facts.kind is not Kind.INTEGER:
        raise UnsupportedSql(
            f"`{key.name}` is not a number.",
            "A model computes with numbers.",
            f"Write CASE WHEN {key.name} = '…' THEN 1 ELSE 0 END for each value that matters, or leave it out.",
        )
    return float(facts.low * facts.step), float(facts.high * facts.step)


def _rows_behind(reading: Measurer, columns: list[Key], target: Key | None) -> Rows:
    """Return the rows of the question as integers: read inside the charge, for a model that iterates."""
    plain = [Key(key.name, key.scalar, None) if key.scalar.facts.kind is Kind.INTEGER else key for key in columns]
    table = reading.columns(ColumnStatement((*plain, *(() if target is None else (target,)))))
    values = np.zeros((len(table.people), len(columns)), order="F")
    for at, (key, steps) in enumerate(zip(columns, table.columns, strict=False)):
        facts = key.scalar.facts
        low, high = (facts.low, facts.high) if facts.kind is Kind.INTEGER else (0, 1)
        values[:, at] = box(steps, low, high)
    if target is None:
        return Rows(values, np.zeros(len(values), dtype=np.int64), table.people, 1)
    return Rows(values, table.columns[-1], table.people, len(target.cells or ()))


def parse_share(text: str) -> Fraction:
    """Return a share as it is written."""
    return Fraction(text)


def to_json_numbers(values: npt.NDArray[Any] | float) -> Any:
    """Return numbers as JSON holds them."""
    return np.asarray(values, dtype=np.float64).tolist()
