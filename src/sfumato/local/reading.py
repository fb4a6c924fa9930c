"""Read the arguments of local mechanisms (parameters, values, reports, sources), or refuse them."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sfumato.errors import BadParameter, quote_value
from sfumato.exact import integer, positive_rational
from sfumato.mechanisms.columns import array_or_none, integer_column
from sfumato.randomness.source import Source, system_source

MIN_EPSILON, MAX_LOCAL_EPSILON = Fraction(1, 10**9), 1000
MAX_CATEGORIES = 2**22 - 1
MAX_LISTED_REPORTS = 2**20
_MAX_COMPARED_BITS = 1 << 16
_MAX_SHARE = 1e12
BLOCK_COINS = 1 << 23
"""Coins that are tossed at once where each person tosses many: they stay in a few megabytes."""

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Octets = npt.NDArray[np.uint8]
Anything = TypeVar("Anything")


def read_epsilon(mechanism: Any) -> None:
    """Replace the field `epsilon` by its exact value, or refuse it."""
    epsilon = positive_rational(mechanism.epsilon, "epsilon")
    if not MIN_EPSILON <= epsilon <= MAX_LOCAL_EPSILON:
        raise BadParameter(
            f"epsilon = {quote_value(epsilon)} is out of range.",
            f"Local reports are built for epsilon from 1e-9 to {MAX_LOCAL_EPSILON}.",
            "Choose an epsilon in that range; 1 to 4 is usual.",
        )
    object.__setattr__(mechanism, "epsilon", epsilon)


def read_integer(mechanism: Any, name: str, least: int, most: int) -> None:
    """Replace an integer field by its value, or refuse it."""
    number = integer(getattr(mechanism, name), name, least)
    if number > most:
        raise BadParameter(
            f"{name} = {quote_value(number)} is more than {most}.",
            "Larger tables are not computed.",
            f"Give {name} from {least} to {most}.",
        )
    object.__setattr__(mechanism, name, number)


def read_categories(mechanism: Any, most: int = MAX_CATEGORIES) -> None:
    """Read the two fields of every oracle."""
    read_epsilon(mechanism)
    read_integer(mechanism, "categories", 2, most)


def source_or_system(source: Source | None) -> Source:
    """Return the source that was given; None is the system's."""
    return system_source() if source is None else source


def integer_rows(reports: object, columns: int, meaning: str, most: int = (1 << 63) - 1) -> Integers:
    """Read rows of `columns` integers from 0 to `most`, or refuse them."""
    array = array_or_none(reports)
    if array is not None and array.size == 0 and array.shape in {(0,), (0, columns)}:
        return np.zeros((0, columns), dtype=np.int64)
    is_table = array is not None and array.dtype.kind in "biu" and array.ndim == 2 and array.shape[1] == columns
    if array is not None and is_table and int(array.min()) >= 0 and int(array.max()) <= most:
        return array.astype(np.int64, copy=False)
    raise not_reports(meaning)


def octet_rows(reports: object, octets: int, bits: int, meaning: str) -> Octets:
    """Read rows of packed bits whose padding is 0, or refuse them."""
    is_table = isinstance(reports, np.ndarray) and reports.dtype == np.uint8 and reports.shape[1:] == (octets,)
    rows = reports if isinstance(reports, np.ndarray) and is_table else integer_rows(reports, octets, meaning, 255)
    if not (rows[:, -1] & ((1 << (8 * octets - bits)) - 1)).any():
        return rows.astype(np.uint8, copy=False)
    raise not_reports(meaning)


def one_report(report: object, check: Callable[[object], Anything]) -> Anything:
    """Check one report as a column or matrix of one person."""
    array = array_or_none(report)
    return check(report if array is None else array[np.newaxis])


def not_reports(meaning: str) -> BadParameter:
    """Return the refusal for anything that `release` cannot have returned."""
    return BadParameter(
        "These are not reports of this mechanism.",
        f"Its reports are {meaning}.",
        "Give what its `release` or `decode` returned.",
    )


def no_reports() -> BadParameter:
    """Return the refusal for a share of zero reports."""
    return BadParameter(
        "There is no report.", "Nothing can be estimated without reports.", "Collect at least one report."
    )


def require_listable(count: int) -> int:
    """Return how many reports there are, if they can be listed."""
    if count <= MAX_LISTED_REPORTS:
        return count
    raise BadParameter(
        "There are too many possible reports to list.",
        f"At most {MAX_LISTED_REPORTS} are listed.",
        "Use `likelihood` for single reports, or fewer categories.",
    )


def read_value(value: object, below: int, name: str = "value") -> int:
    """Read one value, or refuse it without repeating it."""
    try:
        number = integer(value, name, 0)
    except BadParameter:
        number = below
    if number < below:
        return number
    raise BadParameter(
        f"{name} is out of range.", f"It is an integer from 0 to {below - 1}.", "Give one of these integers."
    )


def read_bits(bits: object) -> int:
    """Read a precision in binary digits."""
    digits = integer(bits, "bits", 0)
    if digits <= _MAX_COMPARED_BITS:
        return digits
    raise BadParameter(
        f"bits = {digits} is more than {_MAX_COMPARED_BITS}.", "More bits are never needed.", "Give fewer."
    )


def read_items(items: object) -> Integers:
    """Read items, integers from 0 to 2^63 - 1; texts are hashed to such integers before."""
    return integer_column(items, 0, (1 << 63) - 1, "items")


def read_key(mechanism: Any) -> None:
    """Read the key of a hash family: bytes, at most 64."""
    if not isinstance(mechanism.key, bytes) or len(mechanism.key) > 64:
        raise BadParameter("key is not valid.", "It is at most 64 bytes.", "Give for example b'survey 1', or nothing.")


def read_shares(shares: object) -> Reals:
    """Read one column of finite numbers, none of a size at which doubles cannot tell one share from another."""
    array = array_or_none(shares)
    if array is not None and array.ndim == 1 and array.size and array.dtype.kind in "fiu":
        numbers = array.astype(np.float64)
        if (np.abs(numbers) <= _MAX_SHARE).all():
            return numbers
    raise BadParameter("shares is not a list of shares.", "Each is a finite number.", "Give one share per value.")
