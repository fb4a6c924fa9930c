"""Shared behaviour of classifiers: prediction, probabilities and accuracy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.learn.model import Model, Target
from sfumato.learn.table_metadata import Floats, TableMetadata


class Classifier(Model):
    """A model of classes. Subclasses score a row for each class: log-probabilities up to a constant."""

    _target = Target.CLASS
    _estimator_type = "classifier"  # what scikit-learn before 1.6 looks at
    classes_: npt.NDArray[Any]

    def __init__(
        self,
        *,
        epsilon: object,
        delta: object,
        bounds: object = None,
        classes: object = None,
        neighbours: object = "add-remove",
        rows_per_person: object = 1,
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, bounds=bounds, neighbours=neighbours, rows_per_person=rows_per_person
        )
        self.classes = classes

    def _scores(self, X: object) -> Floats:  # noqa: N803
        raise NotImplementedError

    def _keep_classes(self, metadata: TableMetadata) -> None:
        self.classes_ = np.array(metadata.classes)

    def predict(self, X: object) -> npt.NDArray[Any]:  # noqa: N803
        """Return the most likely class of each row; free."""
        best = self._scores(X).argmax(axis=1)  # before classes_ is looked at: it refuses a model that is not fitted
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: object) -> Floats:  # noqa: N803
        """Return the probability of each class for each row; free."""
        scores = self._scores(X)
        weights = np.exp(np.maximum(scores - scores.max(axis=1, keepdims=True), -700.0))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def score(self, X: object, y: object) -> float:  # noqa: N803
        """Return the accuracy on your own rows: exact, not private."""
        predicted = self.predict(X)
        return float(np.mean(predicted == self._read_targets(y, predicted)))
