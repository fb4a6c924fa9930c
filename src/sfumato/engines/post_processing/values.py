"""Columns of values before and after the arithmetic that follows the noise."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Values = Sequence[int | float | str | bool | None] | npt.NDArray[np.generic]
