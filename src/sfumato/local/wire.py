"""Reports as bytes: 32 bytes that name the mechanism and the number of reports, then the reports, bit by bit."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import BadParameter
from sfumato.local.reading import BLOCK_COINS, Integers, Octets

_MAGIC = b"sfumato1"
_HEADER_BYTES = 32


def write_reports(mechanism: object, bits: int, count: int, rows: Callable[[int, int], Octets]) -> bytes:
    """Write `count` reports of equal length in bits; rows(start, stop) gives them as zeros and ones."""
    step = 8 * max(1, BLOCK_COINS // (8 * bits))  # whole octets
    parts = [np.packbits(rows(start, min(start + step, count))).tobytes() for start in range(0, count, step)]
    return b"".join([_MAGIC, _mechanism_digest(mechanism), count.to_bytes(8, "big"), *parts])


def read_reports(
    mechanism: object, bits: int, message: object, reports: Callable[[Octets], npt.NDArray[Any]]
) -> npt.NDArray[Any]:
    """Read the reports back; `reports` turns rows of zeros and ones into reports, or refuses them."""
    if not isinstance(message, bytes | bytearray | memoryview):
        raise _no_message("A message is bytes.")
    octets = bytes(message)
    if len(octets) < _HEADER_BYTES or not octets.startswith(_MAGIC):
        raise _no_message("It does not begin as a message begins.")
    if octets[8:24] != _mechanism_digest(mechanism):
        raise _no_message("It was written for another mechanism, epsilon or number of categories.")
    count = int.from_bytes(octets[24:_HEADER_BYTES], "big")
    if len(octets) != _HEADER_BYTES + -(-count * bits // 8):
        raise _no_message("It is shorter or longer than its reports.")
    body = np.frombuffer(octets, dtype=np.uint8, offset=_HEADER_BYTES)
    if count * bits % 8 and body[-1] & ((1 << (-count * bits % 8)) - 1):
        raise _no_message("It ends in bits that belong to no report.")
    step = 8 * max(1, BLOCK_COINS // (8 * bits))
    parts = [reports(np.zeros((0, bits), dtype=np.uint8))]
    for start in range(0, count, step):
        stop = min(start + step, count)
        rows = np.unpackbits(body[start * bits // 8 : -(-stop * bits // 8)], count=(stop - start) * bits)
        parts.append(reports(rows.reshape(stop - start, bits)))
    return np.concatenate(parts)


def bits_of(numbers: Integers, width: int) -> Octets:
    """Return a column of integers as rows of `width` zeros and ones, the highest first."""
    places = np.arange(width - 1, -1, -1)
    return ((numbers[:, np.newaxis] >> places) & 1).astype(np.uint8)


def numbers_of(rows: Octets) -> Integers:
    """Return rows of zeros and ones as integers."""
    numbers = np.zeros(len(rows), dtype=np.int64)
    for index in range(rows.shape[1]):
        numbers = (numbers << 1) | rows[:, index]
    return numbers


def _mechanism_digest(mechanism: object) -> bytes:
    return blake2b(repr(mechanism).encode(), digest_size=16).digest()


def _no_message(why: str) -> BadParameter:
    return BadParameter("This is not a message of reports.", why, "Give what this mechanism's `encode` returned.")
