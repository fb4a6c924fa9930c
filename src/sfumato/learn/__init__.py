"""Learning: models fitted through the database at one charge, public afterwards."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.learn.k_means import KMeans
    from sfumato.learn.linear_regression import LinearRegression
    from sfumato.learn.logistic_regression import LogisticRegression
    from sfumato.learn.mlp import MLPClassifier
    from sfumato.learn.naive_bayes import NaiveBayes
    from sfumato.learn.nearest_centroid import NearestCentroid
    from sfumato.learn.pca import PCA
    from sfumato.learn.scaler import StandardScaler

__all__ = [
    "PCA",
    "KMeans",
    "LinearRegression",
    "LogisticRegression",
    "MLPClassifier",
    "NaiveBayes",
    "NearestCentroid",
    "StandardScaler",
]
_HOMES = {
    "KMeans": "k_means",
    "LinearRegression": "linear_regression",
    "LogisticRegression": "logistic_regression",
    "MLPClassifier": "mlp",
    "NaiveBayes": "naive_bayes",
    "NearestCentroid": "nearest_centroid",
    "PCA": "pca",
    "StandardScaler": "scaler",
}


def __getattr__(name: str) -> object:
    """Import a class when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sfumato.learn' has no attribute {name!r}")
    return getattr(import_module(f"sfumato.learn.{_HOMES[name]}"), name)
