"""Laws of every model: the event before the data, all of epsilon used, and nothing about the data in its status."""

import json
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from tests.learn.models import MODELS, PRICE, TABLES, fitted_of, model_of, targets_of

from sfumato.accounting import pld
from sfumato.accounting.event import to_json
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter
from sfumato.learn.linear_regression import LinearRegression
from sfumato.learn.nearest_centroid import NearestCentroid
from sfumato.learn.pca import PCA
from sfumato.learn.scaler import StandardScaler

GENERATOR = np.random.default_rng(3)
ROWS = GENERATOR.uniform(0, 10, (200, 3))
LABELS = ["abc"[at % 3] for at in range(200)]
NUMBERS = [float(row[0] - row[1]) / 2 for row in ROWS]
NEVER = ("labels", "inertia", "n_samples", "n_iter", "loss_curve", "n_rows")


def fitted(name: str, **more: Any) -> Any:
    return model_of(name, **more).fit(ROWS, targets_of(name, LABELS, NUMBERS))


@pytest.mark.parametrize("name", MODELS)
def test_the_certified_bound_is_at_most_the_asked_epsilon_and_nearly_all_of_it(name: str) -> None:
    for epsilon, delta in (("1", "1e-5"), ("0.3", "1e-7"))[: 1 if name == "mlp" else 2]:
        model = fitted(name, epsilon=epsilon, delta=delta)
        lower, upper = pld.bounds(model.event_, delta)
        assert 0.97 * float(epsilon) <= lower <= upper <= float(epsilon)
        assert model.loss_ == PrivacyLoss(Fraction(epsilon), Fraction(delta))
        assert model.receipt_ is None


@pytest.mark.parametrize("name", MODELS)
def test_the_event_is_known_before_any_data(name: str) -> None:
    events = set()
    for rows, labels, numbers in TABLES.values():
        model = model_of(name).fit(rows, targets_of(name, labels, numbers))
        events.add(to_json(model.event_))
    assert events == {to_json(fitted(name).event_)}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", MODELS)
def test_no_data_makes_a_fit_raise_warn_or_differ_in_shape(name: str, table: str) -> None:
    rows, labels, numbers = TABLES[table]
    usual = fitted_of(fitted(name))
    with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise", divide="raise"):
        warnings.simplefilter("error")
        model: Any = model_of(name).fit(rows, targets_of(name, labels, numbers))
        found = fitted_of(model)
        assert found.keys() == usual.keys()
        for key, value in found.items():
            if key in ("weights_", "accounts_"):
                value, usual[key] = len(value), len(usual[key])
            assert np.shape(value) == np.shape(usual[key])
            assert type(value) is type(usual[key])
            if isinstance(value, float | np.ndarray) and key != "classes_":
                assert np.isfinite(value).all(), key
        asked = [[1.0, 2.0, 3.0], [float("nan"), float("inf"), -1e308], [None, "x", 0]]
        for method in ("predict", "predict_proba", "transform"):
            if hasattr(model, method):
                answer = getattr(model, method)(asked)
                assert len(answer) == 3
                if method != "predict" or hasattr(model, "coef_intervals_"):
                    assert np.isfinite(answer).all()
                if method == "predict_proba":
                    assert np.allclose(answer.sum(axis=1), 1)


@pytest.mark.parametrize("name", MODELS)
def test_nothing_exact_stays_in_a_model(name: str) -> None:
    model = fitted(name)
    assert not [key for key in vars(model) if any(word in key for word in NEVER)]
    kept = {key: value for key, value in vars(model).items() if isinstance(value, np.ndarray)}
    assert all(value.shape[0] < 50 for value in kept.values()), "nothing has one entry per row"
    state = model_of(name)
    assert str(len(ROWS)) not in repr(state)


@pytest.mark.parametrize("name", MODELS)
def test_rows_with_gaps_are_absent(name: str) -> None:
    """Beside eight thousand rows in one place, rows with a gap somewhere leave no trace beyond the noise."""
    gaps = np.tile([[1.0, np.nan, 9.0]], (8_000, 1))
    rows = np.concatenate([np.tile([[5.0, 5.0, 5.0]], (8_000, 1)), gaps])
    labels, numbers = ["a"] * 16_000, [1.0] * 16_000
    model: Any = model_of(name).fit(rows, targets_of(name, labels, numbers))
    for key in ("mean_", "centroids_", "theta_"):
        if hasattr(model, key):
            mean = np.atleast_2d(getattr(model, key))[0]
            assert np.abs(mean - 5).max() < 0.3


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("more", [{"neighbours": "replace"}, {"rows_per_person": 3}], ids=str)
def test_replace_and_several_rows_cost_more_noise_at_the_same_price(name: str, more: dict[str, Any]) -> None:
    model = model_of(name, **more)
    groups = [at // 5 for at in range(200)]
    if name == "mlp" and "neighbours" in more:
        with pytest.raises(BadParameter, match="under 'add-remove' only"):
            model.fit(ROWS, LABELS)
        return
    model.fit(ROWS, targets_of(name, LABELS, NUMBERS), groups=groups)
    lower, upper = pld.bounds(model.event_, "1e-5")
    assert 0.97 <= lower <= upper <= 1
    assert to_json(model.event_) != to_json(fitted(name).event_)
    if "neighbours" in more:
        assert json.loads(to_json(model.event_))
        assert "replace" in to_json(model.event_)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "more",
    [
        {"delta": 0},
        {"delta": "1"},
        {"epsilon": 0},
        {"epsilon": "-1"},
        {"epsilon": "101"},
        {"epsilon": None},
        {"bounds": None},
        {"bounds": (1, 1)},
        {"bounds": (0, float("inf"))},
        {"bounds": ([0, 0], [1, 1])},
        {"bounds": (0, 1e200)},
        {"bounds": "01"},
        {"neighbours": "swap"},
        {"rows_per_person": 0},
        {"rows_per_person": 1.5},
    ],
    ids=str,
)
def test_what_means_nothing_is_refused_without_a_look_at_values(name: str, more: dict[str, Any]) -> None:
    with pytest.raises(BadParameter):
        model_of(name, **more).fit(ROWS, targets_of(name, LABELS, NUMBERS))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "rows",
    [None, "rows", [1, 2, 3], [[1, 2], [3]], np.zeros((2, 0)), np.array([["x", "y"]]), np.zeros((2, 2), complex)],
)
def test_what_is_no_table_is_refused(name: str, rows: Any) -> None:
    with pytest.raises(BadParameter):
        model_of(name).fit(rows, targets_of(name, ["a"] * 2, [0.0] * 2))


def test_a_missing_target_is_refused_and_so_is_one_of_another_length() -> None:
    for target in (None, [1.0], np.zeros((200, 2))):
        with pytest.raises(BadParameter):
            model_of("linear").fit(ROWS, target)
    with pytest.raises(BadParameter):
        model_of("scaler").fit(ROWS, groups=[1, 2])
    with pytest.raises(BadParameter):
        model_of("linear", bounds_y=None).fit(ROWS, NUMBERS)
    for classes in (None, [], "ab", ["a", "a"], [["a"]], [None, 1], [float("nan"), 1.0]):
        with pytest.raises(BadParameter):
            model_of("centroid", classes=classes).fit(ROWS, LABELS)
    with pytest.raises(BadParameter):
        PCA(4, **PRICE, bounds=(0, 10)).fit(ROWS)
    with pytest.raises(BadParameter):
        PCA(0, **PRICE, bounds=(0, 10)).fit(ROWS)


def test_a_model_that_was_not_fitted_or_has_other_columns_is_refused() -> None:
    model: Any = model_of("linear")
    with pytest.raises(BadParameter):
        model.predict(ROWS)
    with pytest.raises(BadParameter):
        fitted("linear").predict(ROWS[:, :2])


@pytest.mark.parametrize("name", MODELS)
def test_scikit_learn_can_clone_and_set_parameters(name: str) -> None:
    model: Any = model_of(name)
    copy: Any = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(epsilon="2").epsilon == "2"
    assert model.epsilon == "1"
    with pytest.raises(BadParameter):
        copy.set_params(random_state=1)
    assert "random_state" not in model.get_params()
    assert is_regressor(model) == (name == "linear")
    assert is_classifier(model) == ("classes" in MODELS[name][1])
    assert type(model).__name__ in repr(model)


def test_scikit_learn_can_use_them_in_a_pipeline_and_across_folds() -> None:
    price = {"epsilon": "10", "delta": "1e-5"}
    rows = np.tile(ROWS, (10, 1))
    target = np.array(["high" if row[0] > 5 else "low" for row in rows])
    whole = make_pipeline(
        StandardScaler(**price, bounds=(0, 10)),
        PCA(3, **price, bounds=(-3, 3)),
        NearestCentroid(**price, bounds=(-3, 3), classes=["high", "low"]),
    )
    assert whole.fit(rows, target).score(rows, target) > 0.8
    found = cross_val_predict(whole, rows, target, cv=3)
    assert np.mean(found == target) > 0.8
    numbers = np.tile(NUMBERS, 10)
    line = LinearRegression(**price, bounds=(0, 10), bounds_y=(-5, 5))
    assert np.corrcoef(cross_val_predict(line, rows, numbers, cv=3), numbers)[0, 1] > 0.8


def test_two_fits_of_the_same_rows_differ() -> None:
    assert fitted("scaler").mean_.tolist() != fitted("scaler").mean_.tolist()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_is_not_fitted_or_rows_of_another_shape_are_refused(name: str) -> None:
    ready = fitted(name)
    for method in ("predict", "predict_proba", "transform", "inverse_transform"):
        if hasattr(ready, method):
            for model, rows in ((model_of(name), ROWS), (ready, ROWS[:, :1]), (ready, [["a"]]), (ready, None)):
                with pytest.raises(BadParameter):
                    getattr(model, method)(rows)
    if targets_of(name, LABELS, NUMBERS) is not None:
        for targets in (None, LABELS[:5], [[1]]):
            with pytest.raises(BadParameter):
                ready.score(ROWS, targets)


@pytest.mark.parametrize("name", MODELS)
def test_several_rows_per_person_need_the_person_of_each_row(name: str) -> None:
    """Else rows are taken for people: a lot of DP-SGD would be drawn row by row, and charged person by person."""
    for data in (ROWS, ROWS[:0]):
        targets = targets_of(name, LABELS[: len(data)], NUMBERS[: len(data)])
        with pytest.raises(BadParameter, match="without groups"):
            model_of(name, rows_per_person=3).fit(data, targets)


def test_texts_are_no_numbers() -> None:
    """What an array is declared to hold is refused; a text among other values makes its row absent."""
    for target in (np.array(["1"] * 200), np.array([b"1"] * 200), np.zeros(200, "datetime64[D]")):
        with pytest.raises(BadParameter, match="y is an array of type"):
            model_of("linear").fit(ROWS, target)
    frame = pd.DataFrame({"a": ["1", "2"], "b": ["3", "4"], "c": ["5", "6"]}, dtype="string")
    for rows in (frame, frame.astype("category"), pd.DataFrame({"a": pd.to_datetime(["2024-01-01"])})):
        with pytest.raises(BadParameter, match="not a table of numbers"):
            model_of("scaler").fit(rows)
