"""Where the pages of a request lie: at the root of the server, or below /d/NAME where it has several datasets."""

from contextvars import ContextVar
from urllib.parse import quote

DATASETS_PATH = "/d/"
"""Path of the datasets of a server that has several."""
ROOT_PATH: ContextVar[str] = ContextVar("ROOT_PATH", default="")
"""The beginning of the page's links; each request sets its own."""


def dataset_path(name: str) -> str:
    """Return the path of a dataset, without a slash at its end.

    >>> dataset_path("Clinic 2")
    '/d/Clinic%202'
    """
    return DATASETS_PATH + quote(name, safe="")
