"""What becomes of a bar that cannot be computed: the number was paid for and is shown, and its interval is open."""

import warnings
from collections.abc import Callable
from typing import TypeVar

import numpy as np


class OpenBar(RuntimeWarning):
    """A bar could not be computed, which is a bug; tests take this warning for an error."""


_Found = TypeVar("_Found")


def or_open(find: Callable[[], _Found], otherwise: Callable[[], _Found]) -> _Found:
    """Return what is found, or what holds whatever the noise.

    Bars are made of noisy numbers after the charge. Failing here would lose an answer that was paid for.
    """
    try:
        with np.errstate(all="ignore"):  # a number that overflows is infinite, and its ends are open: forms.outward
            return find()
    except Exception as failure:
        warnings.warn(f"Bars could not be computed ({type(failure).__name__}), so they are open.", OpenBar, 2)
    return otherwise()
