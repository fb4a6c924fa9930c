"""A small network in integers: forwards, backwards and clipping of a row give the same whatever rows are beside it.

Weights are rounded to a public grid before any row sees them; activations and gradients are integers; products of
integers below 2^53 are exact in doubles, in whatever order they are added. So the sum of clipped gradients is an exact
integer vector, and no bound on rounding errors is needed.  Proof: proofs/learn_sgd.md
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.learn.logistic_regression import lengths_above, shares
from sfumato.learn.outline import Floats
from sfumato.learn.rows import Integers, exact_product

VALUE = 1 << 12
"""One, in activations and in weights."""
SLOPE = 1 << 16
"""One, in what is carried backwards."""
WIDEST = 1 << 10
"""The most units of a layer, and the most columns: sums of so many products stay below 2^53."""
_WEIGHT = 16
"""No weight goes further."""
_FAR = 1 << 20
"""No activation and no carried slope goes further."""
LENGTH = VALUE * SLOPE
"""A gradient of length one."""
_SLACK = 1 + 2.0**-30
_LOGIT, _FINE = 1 << 8, 1 << 12

Layers = list[Integers]
"""For each layer a matrix: one line per unit below, then one of constants; one column per unit."""


def on_grid(weights: list[Floats]) -> Layers:
    """Return weights rounded to their public grid, and inside their range."""
    return [np.rint(np.clip(layer, -_WEIGHT, _WEIGHT) * VALUE).astype(np.int64) for layer in weights]


@dataclass(frozen=True, slots=True)
class IntegerNetwork:
    """Layers with a ramp between them and classes at the end; `rows` hold integers, VALUE being one.

    Theorem: the gradient that a row adds to `clipped_sum` is a function of that row, its class and the weights, and its
    length over all layers is at most `length`.  Proof: proofs/learn_sgd.md
    """

    layers: Layers
    length: int

    def clipped_sum(self, rows: Integers, labels: Integers) -> Layers:
        """Return the sum of the rows' clipped gradients, layer by layer: exact integers."""
        inputs, outputs = self._forwards(rows)
        slopes = self._backwards(inputs, outputs, labels)
        squares = np.zeros(len(rows))
        for below, slope in zip(inputs, slopes, strict=True):
            long = lengths_above(_squares(below)).astype(np.float64) * lengths_above(_squares(slope))
            squares += long * long
        reach = np.ceil(np.sqrt(squares) * _SLACK) + 1
        factor = np.maximum(reach, float(self.length))[:, None]
        return [
            exact_product(below, np.trunc(slope * float(self.length) / factor))
            for below, slope in zip(inputs, slopes, strict=True)
        ]

    def _forwards(self, rows: Integers) -> tuple[list[Floats], Floats]:
        """Return what goes into each layer, constants included, and what comes out of the last."""
        inputs = [_with_constant(np.clip(rows, -_FAR, _FAR).astype(np.float64))]
        for layer in self.layers[:-1]:
            inputs.append(_with_constant(np.clip((inputs[-1] @ layer.astype(np.float64)) // VALUE, 0, _FAR)))
        return inputs, inputs[-1] @ self.layers[-1].astype(np.float64)

    def _backwards(self, inputs: list[Floats], outputs: Floats, labels: Integers) -> list[Floats]:
        """Return the slope of the loss at each layer's output."""
        logits = (outputs // (VALUE * VALUE // _LOGIT)).astype(np.int64)
        residuals = shares(logits)
        residuals[np.arange(len(labels)), labels] -= _FINE
        slopes = [residuals.astype(np.float64) * (SLOPE // _FINE)]
        for layer, below in zip(self.layers[:0:-1], inputs[:0:-1], strict=True):
            carried = (slopes[0] @ layer[:-1].astype(np.float64).T) // VALUE
            slopes.insert(0, np.clip(np.where(below[:, :-1] > 0, carried, 0.0), -_FAR, _FAR))
        return slopes


def _with_constant(values: Floats) -> Floats:
    return np.concatenate([values, np.full((len(values), 1), float(VALUE))], axis=1)


def _squares(values: Floats) -> npt.NDArray[np.int64]:
    """Return the sum of squares of each row: integers below 2^50, so exact in whatever order they are added."""
    return np.asarray(np.einsum("ij,ij->i", values, values)).astype(np.int64)
