"""A small network in integers: forwards, backwards and clipping of a row give the same whatever rows are beside it.

Weights are rounded to a public grid before any row sees them; activations and gradients are integers; products of
integers below 2^53 are exact in doubles, in whatever order they are added. So the sum of clipped gradients is an exact
integer vector, and no bound on rounding errors is needed.  Proof: proofs/learn_sgd.md
"""

from dataclasses import dataclass

import numpy as np

from sfumato.learn.logistic_regression import softmax_shares
from sfumato.learn.rows import Integers, blocks, exact_product, lengths_above, squared_norms
from sfumato.learn.table_metadata import Floats

VALUE_UNIT = 1 << 12
"""One, in activations and in weights."""
SLOPE_UNIT = 1 << 16
"""One, in what is carried backwards."""
MAX_LAYER_WIDTH = 1 << 10
"""Maximum number of units of a layer and of columns: sums of that many products stay below 2^53."""
_MAX_WEIGHT = 16
"""No weight goes further."""
_MAX_ACTIVATION = 1 << 20
"""No activation and no carried slope goes further."""
GRADIENT_UNIT = VALUE_UNIT * SLOPE_UNIT
"""A gradient of length one."""
_NORM_SLACK_FACTOR = 1 + 2.0**-30
_LOGIT_UNIT, _SHARE_UNIT = 1 << 8, 1 << 12

LayerWeights = list[Floats]
"""For each layer a matrix of whole numbers: one line per unit below, then one of constants; one column per unit."""


def on_grid(weights: list[Floats]) -> LayerWeights:
    """Return weights rounded to their public grid, and inside their range."""
    return [np.rint(np.clip(layer, -_MAX_WEIGHT, _MAX_WEIGHT) * VALUE_UNIT) for layer in weights]


@dataclass(frozen=True, slots=True)
class IntegerNetwork:
    """Layers with a ramp between them and classes at the end; `rows` hold integers, VALUE being one.

    Theorem: the gradient that a row adds to `clipped_sum` is a function of that row, its class and the weights, and its
    length over all layers is at most `length`.  Proof: proofs/learn_sgd.md
    """

    layers: LayerWeights
    length: int

    def clipped_sum(self, rows: Floats, labels: Integers) -> list[Integers]:
        """Return the sum of the rows' clipped gradients, layer by layer: exact integers."""
        total = [np.zeros(layer.shape, dtype=np.int64) for layer in self.layers]
        for part in blocks(len(rows)):
            for index, gradient in enumerate(self._clip_gradients(rows[part], labels[part])):
                total[index] += gradient
        return total

    def _clip_gradients(self, rows: Floats, labels: Integers) -> list[Integers]:
        inputs, outputs = self._run_forward(rows)
        slopes = self._run_backward(inputs, outputs, labels)
        squares = np.zeros(len(rows))
        for below, slope in zip(inputs, slopes, strict=True):
            squares += (lengths_above(squared_norms(below)) * lengths_above(squared_norms(slope))) ** 2
        reach = np.ceil(np.sqrt(squares) * _NORM_SLACK_FACTOR) + 1
        factor = np.maximum(reach, float(self.length))[:, None]
        return [
            exact_product(below, np.trunc(slope * float(self.length) / factor))
            for below, slope in zip(inputs, slopes, strict=True)
        ]

    def _run_forward(self, rows: Floats) -> tuple[list[Floats], Floats]:
        """Return what goes into each layer, constants included, and what comes out of the last."""
        inputs = [_append_constant(np.clip(rows, -_MAX_ACTIVATION, _MAX_ACTIVATION))]
        for layer in self.layers[:-1]:
            inputs.append(_append_constant(np.clip(np.floor(inputs[-1] @ layer / VALUE_UNIT), 0, _MAX_ACTIVATION)))
        return inputs, inputs[-1] @ self.layers[-1]

    def _run_backward(self, inputs: list[Floats], outputs: Floats, labels: Integers) -> list[Floats]:
        """Return the slope of the loss at each layer's output."""
        residuals = softmax_shares(np.floor(outputs.T * (_LOGIT_UNIT / VALUE_UNIT**2))).T
        residuals[np.arange(len(labels)), labels] -= _SHARE_UNIT
        slopes = [residuals * (SLOPE_UNIT / _SHARE_UNIT)]
        for layer, below in zip(self.layers[:0:-1], inputs[:0:-1], strict=True):
            carried = np.floor(slopes[0] @ layer[:-1].T / VALUE_UNIT)
            slopes.insert(0, np.clip(np.where(below[:, :-1] > 0, carried, 0.0), -_MAX_ACTIVATION, _MAX_ACTIVATION))
        return slopes


def _append_constant(values: Floats) -> Floats:
    return np.concatenate([values, np.full((len(values), 1), float(VALUE_UNIT))], axis=1)
