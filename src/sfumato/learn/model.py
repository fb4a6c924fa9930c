"""Shared behaviour of all models: parameters, fitting arrays or a database at one charge, scikit-learn's interface."""

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
"""The released result of a fit, as JSON: numbers computed from noisy integers only."""
_MAX_FEATURE_VALUE = 1e300
_MAX_HALF_RANGES = 1e9
"""Rows given to a fitted model are clipped at this number of half ranges, which avoids overflow."""


class Target(Enum):
    """The kind of the last column."""

    NONE = auto()
    NUMBER = auto()
    CLASS = auto()


class StageNoise:
    """Fresh noise for the stages of one fit, in their order, and random bits for post-processing."""

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
    """A model whose fit is one private release. Subclasses define measurements and post-processing."""

    bounds_y: object = None
    classes: object = None

    event_: Event
    loss_: PrivacyLoss
    receipt_: Receipt | None
    n_features_in_: int

    _target: ClassVar[Target] = Target.NONE
    _iterative: ClassVar[bool] = False
    """Whether the model reads rows inside the charge, because it iterates over them."""

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

    # ── defined by subclasses ──

    def _stages(self, metadata: TableMetadata) -> tuple[Stage, ...]:
        """Return the measurements from public facts only; refuse invalid parameters."""
        raise NotImplementedError

    def _measure(self, sums: Any, metadata: TableMetadata, noise: StageNoise) -> FitState:
        """Measure, and return the model: finite and without errors for any rows."""
        raise NotImplementedError

    def _set_state(self, state: FitState, metadata: TableMetadata) -> None:
        """Set the fitted attributes."""
        raise NotImplementedError

    def _parameters(self) -> Mapping[str, object]:
        """Return the parameters of this model alone: they are part of the query fingerprint."""
        return {}

    # ── fitting ──

    def fit(self, X: object, y: object = None, groups: object = None) -> Self:  # noqa: N803
        """Fit arrays, or the rows of a query: `fit(db, sql)`, whose last column is the target if there is one."""
        if isinstance(X, Database):
            return self._fit_database(X, y, groups)
        metadata = self._metadata_of_arrays(X)
        fit, loss = self._calibrate(metadata)
        source = system_source()
        rows = bounded_rows(X, y, groups, metadata, source)
        noise = StageNoise(fit, lambda values, mechanism: mechanism.release(values, source), source)
        return self._set_fitted(self._measure(rows, metadata, noise), metadata, fit.event, loss, None)

    def explain(self, db: object, sql: str) -> Quote:
        """Return the price of `fit(db, sql)`. It is free, reads no private data, and refuses when `fit` would."""
        measurable = prepare_measurement(db, sql)
        metadata, columns, target = self._metadata_of_rows(measurable)
        fit, loss = self._calibrate(metadata)
        self._try_statements(measurable, columns, target, metadata, fit)
        words = f"discrete Gaussian noise, {len(fit.mechanisms)} stage{'s' * (len(fit.mechanisms) > 1)}"
        return Quote(loss, {}, {type(self).__name__: words}, measurable.rows.notes)

    def _fit_database(self, database: Database, sql: object, groups: object) -> Self:
        if not isinstance(sql, str) or groups is not None:
            raise BadParameter(
                "A fit with a database takes only a question.",
                "The policy says which person each row belongs to.",
                "Write fit(db, 'SELECT … FROM …').",
            )
        measurable = prepare_measurement(database, sql)
        metadata, columns, target = self._metadata_of_rows(measurable)
        fit, loss = self._calibrate(metadata)
        self._try_statements(measurable, columns, target, metadata, fit)

        def release(reading: Measurer) -> FitState:
            noise = StageNoise(fit, reading.noisy, reading.source)
            sums: Sums = (
                _read_rows(reading, columns, target)
                if self._iterative
                else EngineSums(measurable, columns, target, reading)
            )
            return self._measure(sums, metadata, noise)

        name = f"learn.{type(self).__name__}"
        declared = MeasurementRequest(name, {"target": self._target.name, **self._parameters()}, fit.event, loss)
        done = measure(database, measurable, declared, release)
        return self._set_fitted(done.released, metadata, fit.event, loss, done.receipt)

    def _try_statements(
        self, measurable: Measurable, columns: list[Key], target: Key | None, metadata: TableMetadata, fit: Calibrated
    ) -> None:
        """Refuse statements that the engine cannot run, by a trial fit on no rows whose noise is discarded."""
        if self._iterative:
            measurable.check(ColumnStatement((*columns, *(() if target is None else (target,)))))
            return
        source = system_source()
        noise = StageNoise(fit, lambda values, mechanism: mechanism.release(values, source), source)
        self._measure(EngineSums(measurable, columns, target, None), metadata, noise)

    def _set_fitted(
        self, state: FitState, metadata: TableMetadata, event: Event, loss: PrivacyLoss, receipt: Receipt | None
    ) -> Self:
        self.n_features_in_ = metadata.width
        self.event_, self.loss_, self.receipt_ = event, loss, receipt
        self._metadata = metadata
        self._set_state(state, metadata)
        return self

    def _calibrate(self, metadata: TableMetadata) -> tuple[Calibrated, PrivacyLoss]:
        epsilon, delta = read_loss(self.epsilon, self.delta)
        return calibrate_stages(self._stages(metadata), epsilon, delta, metadata.neighbours), PrivacyLoss(
            epsilon, delta
        )

    def _metadata_of_arrays(self, X: object) -> TableMetadata:  # noqa: N803
        width = read_matrix(X).shape[1]
        low, high = read_bounds(self.bounds, width, "bounds")
        classes: tuple[Any, ...] = ()
        if self._target is Target.NUMBER:
            (low_y,), (high_y,) = read_bounds(self.bounds_y, 1, "bounds_y")
            low, high = (*low, low_y), (*high, high_y)
        if self._target is Target.CLASS:
            classes = read_classes(self.classes)
        numeric, relation = self._target is Target.NUMBER, read_neighbours(self.neighbours)
        return TableMetadata(low, high, classes, numeric, relation, read_people(self.rows_per_person))

    def _metadata_of_rows(self, measurable: Measurable) -> tuple[TableMetadata, list[Key], Key | None]:
        """Return the public facts of a query's rows: its numeric columns, and the key of the classes."""
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
        columns, target = list(measurable.rows.columns), None
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
        rows = measurable.rows
        numeric = self._target is Target.NUMBER
        return TableMetadata(low, high, classes, numeric, rows.neighbours, rows.most), columns, target

    # ── using the model ──

    def _table(self, X: object) -> Floats:  # noqa: N803
        """Read rows for prediction; a missing value becomes the middle of its bounds."""
        table = self._columns(X, lambda: self.n_features_in_)
        middle, half = self._metadata.middle[: self.n_features_in_], self._metadata.half[: self.n_features_in_]
        with np.errstate(over="ignore"):
            low, high = (
                np.clip(middle + side * half, -_MAX_FEATURE_VALUE, _MAX_FEATURE_VALUE)
                for side in (-_MAX_HALF_RANGES, _MAX_HALF_RANGES)
            )
        return np.clip(np.where(np.isnan(table), middle, table), low, high)

    def _columns(self, X: object, count: Callable[[], int]) -> Floats:  # noqa: N803
        """Read rows with as many columns as the fitted model has."""
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

    def _read_targets(self, y: object, predicted: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Read the targets of predictions, one for each."""
        try:
            targets = np.asarray(y, dtype=np.float64 if self._target is Target.NUMBER else None)
        except (TypeError, ValueError):
            targets = np.zeros(0)
        if targets.shape == predicted.shape:
            return targets
        raise BadParameter(
            "y is not one target for each row of X.", "Each prediction is compared with its own.", "Give one per row."
        )

    # ── scikit-learn's interface ──

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return sorted(name for name in signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters as they were given."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: object) -> Self:
        """Set parameters by name."""
        for name, value in params.items():
            if name not in self._parameter_names():
                raise BadParameter(
                    f"{type(self).__name__} has no parameter {quote_value(name)}.",
                    f"It has: {', '.join(self._parameter_names())}.",
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
        set_parameters = (
            f"{name}={quote_value(value)}" for name, value in self.get_params().items() if value is not None
        )
        return f"{type(self).__name__}({', '.join(set_parameters)})"


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


def _read_rows(reading: Measurer, columns: list[Key], target: Key | None) -> Rows:
    """Read the rows of the query as integers, inside the charge, for a model that iterates."""
    keys = [Key(key.name, key.scalar, None) if key.scalar.facts.kind is Kind.INTEGER else key for key in columns]
    table = reading.columns(ColumnStatement((*keys, *(() if target is None else (target,)))))
    values = np.zeros((len(table.people), len(columns)), order="F")
    for index, (key, steps) in enumerate(zip(columns, table.columns, strict=False)):
        facts = key.scalar.facts
        low, high = (facts.low, facts.high) if facts.kind is Kind.INTEGER else (0, 1)
        values[:, index] = box(steps, low, high)
    if target is None:
        return Rows(values, np.zeros(len(values), dtype=np.int64), table.people, 1)
    return Rows(values, table.columns[-1], table.people, len(target.cells or ()))


def parse_share(text: str) -> Fraction:
    """Read a share as a fraction."""
    return Fraction(text)


def to_json_numbers(values: npt.NDArray[Any] | float) -> Any:
    """Return numbers as JSON values."""
    return np.asarray(values, dtype=np.float64).tolist()
