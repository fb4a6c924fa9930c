"""MLPClassifier: DP-SGD in its six steps, on a network whose gradients are integers."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil, inf, prod
from typing import Any

import numpy as np

from sfumato.accounting import pld, rdp
from sfumato.accounting.calibrate import gaussian_sigma_squared
from sfumato.accounting.event import Composed, Event, Neighbours, PoissonSampled, Repeated
from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadParameter
from sfumato.exact import decimal_rational, integer
from sfumato.learn.calibration import Calibrated, Stage
from sfumato.learn.classifier import Classifier
from sfumato.learn.first_stage import centre_stage, measure_centre, measure_radius, radius_stage
from sfumato.learn.integer_network import GRADIENT_UNIT, MAX_LAYER_WIDTH, VALUE_UNIT, IntegerNetwork, on_grid
from sfumato.learn.model import FitState, StageNoise, parse_share, to_json_numbers
from sfumato.learn.normals import normals
from sfumato.learn.rows import UNIT_STEPS, Ball, Rows, shrink
from sfumato.learn.sensitivities import of_gradients
from sfumato.learn.table_metadata import Floats, TableMetadata, inverse, read_loss
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.randomness.bernoulli import Bernoulli, Rational

_INPUT_NORM = 4
"""Rows of length one go into the network with this length."""
_MOMENTUM = 0.9
_MIN_USED_SHARE, _TARGET_SHARE = Fraction(995, 1000), 0.998
"""Share of epsilon at which the search for the least noise ends, and its target."""
_TRIES = 60
_MIN_NOISE_SCALE = 1e-4
"""Smallest noise variance that is searched, in squared gradient lengths."""
_FIRST_STAGE_SHARE = parse_share("0.15")
"""Share of the privacy loss for centre, count and radius."""


class MLPClassifier(Classifier):
    """A ReLU network fitted by noisy sums of clipped gradients of random lots of units.

    Theorem: a released centre, count and radius, then sums over lots into which each person comes with probability
    `rate`, each person's part at most `rows_per_person` gradients of length `clip`, with Gaussian noise; all of it and
    what follows is (epsilon, delta)-DP under add-remove.  Proof: proofs/learn_sgd.md
    """

    _iterative = True
    weights_: list[Floats]
    accounts_: dict[str, Any]

    def __init__(
        self,
        hidden: object = (64,),
        *,
        epsilon: object,
        delta: object,
        rate: object = "0.2",
        steps: object = 150,
        clip: object = 1,
        learning_rate: object = 0.5,
        bounds: object = None,
        classes: object = None,
        neighbours: object = "add-remove",
        rows_per_person: object = 1,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            bounds=bounds,
            classes=classes,
            neighbours=neighbours,
            rows_per_person=rows_per_person,
        )
        self.hidden = hidden
        self.rate = rate
        self.steps = steps
        self.clip = clip
        self.learning_rate = learning_rate

    def _parameters(self) -> dict[str, object]:
        return {
            "hidden": list(self._read_hidden()),
            "rate": str(self._read_rate()),
            "steps": self._read_steps(),
            "clip": self._clip_length(),
            "learning_rate": str(self._read_learning_rate()),
        }

    def _stages(self, metadata: TableMetadata) -> tuple[Stage, ...]:
        return (
            centre_stage(metadata, _FIRST_STAGE_SHARE * parse_share("2/3")),
            radius_stage(metadata, _FIRST_STAGE_SHARE * parse_share("1/3")),
            Stage(1 - _FIRST_STAGE_SHARE, of_gradients(metadata, self._clip_length()), self._read_steps()),
        )

    def _calibrate(self, metadata: TableMetadata) -> tuple[Calibrated, PrivacyLoss]:
        if metadata.neighbours is not Neighbours.ADD_REMOVE:
            raise BadParameter(
                "MLPClassifier cannot be fitted under 'replace'.",
                "The proof for random batches holds under 'add-remove' only.",
                "Use 'add-remove', or another model.",
            )
        if metadata.width + 1 > MAX_LAYER_WIDTH:
            raise BadParameter("There are too many columns.", f"At most {MAX_LAYER_WIDTH - 1} fit.", "Leave some out.")
        epsilon, delta = read_loss(self.epsilon, self.delta)
        self._read_hidden(), self._read_learning_rate()
        return calibrate_sampled(self._stages(metadata), self._read_rate(), epsilon, delta), PrivacyLoss(epsilon, delta)

    def _measure(self, sums: Rows, metadata: TableMetadata, noise: StageNoise) -> FitState:
        centre, count = measure_centre(sums, metadata, noise, 0)
        ball = Ball(centre, measure_radius(sums, metadata, centre, noise, 1, measured=True))
        rows = np.floor(shrink(sums.values, ball) * (_INPUT_NORM * VALUE_UNIT / UNIT_STEPS))
        people, coins = _number_people(sums), Bernoulli(Rational(self._read_rate()))
        sizes = [metadata.width, *self._read_hidden(), len(metadata.classes)]
        shapes = [(below + 1, above) for below, above in pairwise(sizes)]
        weights = _initial_layers(shapes, noise)
        speed = [np.zeros(shape) for shape in shapes]
        total = [np.zeros(shape) for shape in shapes]
        steps, learning_rate, lot_size = (
            self._read_steps(),
            float(self._read_learning_rate()),
            float(self._read_rate()) * count,
        )
        person_count = int(people.max()) + 1 if people.size else 0
        for step in range(steps):
            network = IntegerNetwork(on_grid(weights), self._clip_length())
            lot = (
                coins.draw(person_count, noise.source)[people] if person_count else np.zeros(0, dtype=bool)
            )  # 1: sample people
            exact = network.clipped_sum(rows[lot], sums.labels[lot])  # 2, 3: gradients of rows, each clipped
            noisy = noise.add(2, np.concatenate([layer.ravel() for layer in exact]))  # 4: noise on the sum
            # 5: step by the noisy size of a lot
            for layer_index, gradient in enumerate(_split_layers(noisy / GRADIENT_UNIT, shapes)):
                speed[layer_index] = _MOMENTUM * speed[layer_index] + gradient / lot_size
                weights[layer_index] = np.clip(
                    weights[layer_index] - learning_rate * (1 - _MOMENTUM) * speed[layer_index], -8, 8
                )
                if 2 * step >= steps:
                    total[layer_index] += weights[layer_index] / (steps - (steps + 1) // 2)
        return {"weights": [to_json_numbers(layer) for layer in total], "centre": list(centre), "radius": ball.radius}

    def _set_state(self, state: FitState, metadata: TableMetadata) -> None:
        self._keep_classes(metadata)
        self.weights_ = [np.array(layer) for layer in state["weights"]]
        self._ball = Ball(tuple(state["centre"]), int(state["radius"]))
        delta = self.loss_.delta  # 6: account, by moments as [ACGMMTZ16] did and by the certified distribution
        moments, certified = epsilon_by_accountant(self.event_, delta)
        self.accounts_ = {"moments": moments, "certified": certified}

    def _scores(self, X: object) -> Floats:  # noqa: N803
        rows = (self._table(X) - self._metadata.middle) * inverse(self._metadata.half) * UNIT_STEPS - np.array(
            self._ball.centre
        )
        lengths = np.maximum(np.sqrt((np.clip(rows, -1e100, 1e100) ** 2).sum(axis=1)), self._ball.radius)
        values = rows / lengths[:, None] * _INPUT_NORM
        for layer_index, layer in enumerate(self.weights_):
            values = np.concatenate([values, np.ones((len(values), 1))], axis=1) @ layer
            values = np.maximum(values, 0.0) if layer_index + 1 < len(self.weights_) else values
        return np.asarray(values)

    def _read_hidden(self) -> tuple[int, ...]:
        if not isinstance(self.hidden, Sequence) or isinstance(self.hidden, str) or len(self.hidden) > 4:
            raise BadParameter(
                "hidden is not a list of sizes.", "It names the units of up to four layers.", "Give hidden=(64,), say."
            )
        sizes = tuple(integer(size, "hidden", 1) for size in self.hidden)
        if max(sizes, default=1) >= MAX_LAYER_WIDTH:
            raise BadParameter(
                "A hidden layer is too wide.", f"It has at most {MAX_LAYER_WIDTH - 1} units.", "Give fewer."
            )
        return sizes

    def _read_rate(self) -> Fraction:
        rate = decimal_rational(self.rate, "rate")
        if 0 < rate <= 1:
            return rate
        raise BadParameter(
            "rate is not a probability.", "It is the probability that a person is in a batch.", "Give rate='0.1'."
        )

    def _read_steps(self) -> int:
        steps = integer(self.steps, "steps", 1)
        if steps <= 1_000_000:
            return steps
        raise BadParameter("steps is more than 1,000,000.", "Each step costs noise and time.", "Give fewer.")

    def _clip_length(self) -> int:
        clip = decimal_rational(self.clip, "clip")
        if Fraction(1, 1000) <= clip <= 256:
            return int(clip * GRADIENT_UNIT)
        raise BadParameter(
            "clip is not between 0.001 and 256.", "It is the length of one row's gradient.", "Give clip=1, say."
        )

    def _read_learning_rate(self) -> Fraction:
        pace = decimal_rational(self.learning_rate, "learning_rate")
        if 0 < pace <= 1000:
            return pace
        raise BadParameter("learning_rate is not between 0 and 1000.", "It scales a step.", "Give 0.5, say.")


@lru_cache(maxsize=64)
def calibrate_sampled(stages: tuple[Stage, ...], rate: Fraction, epsilon: Fraction, delta: Fraction) -> Calibrated:
    """Return the noise of the first stages by their shares, and the least noise that fits for the sampled last stage.

    The certified upper bound of the whole event is at most epsilon, and nearly all of it is used.
    """
    relation = Neighbours.ADD_REMOVE
    variance = gaussian_sigma_squared(epsilon, delta, 1)
    *first, last = stages
    first_mechanisms = [
        Gaussian(
            stage.sensitivity_squared, Fraction(ceil(stage.sensitivity_squared * variance / stage.share)), relation
        )
        for stage in first
    ]

    def calibrate_at(scale: float) -> Calibrated:
        noise = Gaussian(last.sensitivity_squared, Fraction(ceil(last.sensitivity_squared * Fraction(scale))), relation)
        lots = Repeated(PoissonSampled(rate, noise.event), last.times)
        return Calibrated(
            (*first_mechanisms, noise), Composed((*(mechanism.event for mechanism in first_mechanisms), lots))
        )

    # start from the noise without sampling; epsilon is nearly proportional to one over the deviation
    scale, low, high = float(last.times * variance / last.share), 0.0, inf
    best: Calibrated | None = None
    for _ in range(_TRIES):
        candidate = calibrate_at(scale)
        upper = pld.bounds(candidate.event, delta)[1]
        if Fraction(upper) <= epsilon:
            best, high = candidate, scale
            if Fraction(upper) >= _MIN_USED_SHARE * epsilon or scale <= _MIN_NOISE_SCALE:
                return best
        else:
            low = scale
        nearer = scale * (upper / float(epsilon) / _TARGET_SHARE) ** 2
        scale = max(nearer if low < nearer < high else (low + high) / 2 if high < inf else 2 * low, _MIN_NOISE_SCALE)
    if best is None:
        raise BadParameter(
            "No noise was found for this price.", "The certified bound stays above epsilon.", "Ask for fewer steps."
        )
    return best


@lru_cache(maxsize=64)
def epsilon_by_accountant(event: Event, delta: Fraction) -> tuple[float, tuple[float, float]]:
    """Return epsilon by moments and between certified bounds."""
    return rdp.epsilon(event, delta), pld.bounds(event, delta)


def _number_people(rows: Rows) -> Any:
    """Number the units from 0: one coin is tossed per unit."""
    return np.unique(rows.people, return_inverse=True)[1] if len(rows.people) else np.zeros(0, dtype=np.int64)


def _initial_layers(shapes: list[tuple[int, int]], noise: StageNoise) -> list[Floats]:
    """Return data-independent initial weights; those of the last layer are 0."""
    count = sum(prod(shape) for shape in shapes)
    weights = _split_layers(normals(count, noise.source), shapes)
    for layer_index, (inputs, _) in enumerate(shapes):
        weights[layer_index] *= (
            (2 / (_INPUT_NORM**2 if layer_index == 0 else inputs)) ** 0.5 if layer_index + 1 < len(shapes) else 0.0
        )
        weights[layer_index][-1] = 0.0
    return weights


def _split_layers(values: Floats, shapes: list[tuple[int, int]]) -> list[Floats]:
    ends = np.cumsum([prod(shape) for shape in shapes])[:-1]
    return [part.reshape(shape).copy() for part, shape in zip(np.split(values, ends), shapes, strict=True)]
