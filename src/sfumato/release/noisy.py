"""What was measured, with its noise: the only thing that outlives a run. A ledger keeps it as exact JSON."""

import json
from dataclasses import dataclass
from itertools import chain

import numpy as np

from sfumato.analysis.private_query import Absent, KeyValue
from sfumato.errors import MalformedEvent
from sfumato.mechanisms.answers import Answers

NoisyValues = tuple[int, ...] | tuple[tuple[int, ...], ...]
"""What a measurement released: an integer per cell, or a histogram per cell, all of one length."""
_MAX_FAST_INTEGER_VALUE = 1 << 61
"""Integers below this one stay within 64 bits with the noise of two others."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class NoisyGroup:
    """One group: its keys, one tuple per cell, and each measurement by name with its noisy values."""

    keys: tuple[tuple[KeyValue, ...], ...]
    columns: tuple[tuple[str, NoisyValues], ...]

    def column(self, name: str) -> NoisyValues:
        """Return the noisy values of one measurement."""
        return next(values for known, values in self.columns if known == name)

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return all noisy integers of one measurement, cell after cell."""
        return flatten(self.column(name))


def flatten(values: NoisyValues) -> tuple[int, ...]:
    """Return all integers of a measurement, cell after cell."""
    if values and isinstance(values[0], tuple):  # the others, too: a measurement has one form
        return tuple(chain.from_iterable(values))
    return values  # type: ignore[return-value]


def integers(values: NoisyValues) -> Answers:
    """Return integers as an array: int64 if they and their noise surely fit, else Python integers."""
    try:
        found = np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array(values, dtype=object)
    return (
        found
        if not found.size or -_MAX_FAST_INTEGER_VALUE < found.min() <= found.max() < _MAX_FAST_INTEGER_VALUE
        else found.astype(object)
    )


@dataclass(frozen=True, slots=True)
class NoisyResult:
    """The groups of a plan, in its order, and how many random bits such noise takes."""

    groups: tuple[NoisyGroup, ...]
    bits: int


def noisy_to_json(noisy: NoisyResult) -> str:
    """Return the one text of it. Integers are decimal texts, so that no reader makes floats of them.

    A histogram is a list of them.

    >>> noisy_to_json(NoisyResult((NoisyGroup((("er",),), (("n", (2**70,)),)),), 64))
    '{"bits":"64","groups":[{"columns":[["n",["1180591620717411303424"]]],"keys":[[["text","er"]]]}]}'
    """
    groups = [
        {
            "columns": [[name, _values_data(values)] for name, values in group.columns],
            "keys": [[_cell_data(cell) for cell in cells] for cells in group.keys],
        }
        for group in noisy.groups
    ]
    return _ENCODER.encode({"bits": str(noisy.bits), "groups": groups})


def noisy_from_json(text: str) -> NoisyResult:
    """Read back exactly what `noisy_to_json` wrote; any other text is refused."""
    try:
        noisy = _noisy(json.loads(text))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise _malformed() from None
    if noisy_to_json(noisy) != text:  # one text per answer: a stored answer cannot be respelled
        raise _malformed()
    return noisy


def _noisy(data: dict[str, object]) -> NoisyResult:
    groups = data["groups"]
    if not isinstance(groups, list):
        raise _malformed()
    return NoisyResult(tuple(_group(group) for group in groups), _integer(data["bits"]))


def _group(data: dict[str, list[list[object]]]) -> NoisyGroup:
    keys = tuple(tuple(_cell(cell) for cell in cells) for cells in data["keys"])
    columns = tuple((_text(name), _values(values)) for name, values in data["columns"])
    if any(len(values) != len(keys) for _, values in columns):
        raise _malformed()
    return NoisyGroup(keys, columns)


def _values_data(values: NoisyValues) -> list[str] | list[list[str]]:
    if values and isinstance(values[0], tuple):
        return [list(map(str, value)) for value in values]
    return list(map(str, values))


def _values(data: object) -> NoisyValues:
    if not isinstance(data, list) or list not in set(map(type, data)):
        return _integers(data)
    histograms = tuple(_integers(value) for value in data)
    if len({len(value) for value in histograms}) > 1:
        raise _malformed()
    return histograms


def _cell_data(cell: KeyValue) -> list[str]:
    if isinstance(cell, str):
        return ["text", cell]
    if cell is None:
        return ["rest"]
    if isinstance(cell, Absent):
        return [cell.value]
    if isinstance(cell, bool):
        return ["boolean", "true" if cell else "false"]
    return ["integer", str(cell)]


def _cell(data: object) -> KeyValue:
    match data:
        case ["boolean", ("true" | "false") as word]:
            return word == "true"
        case ["integer", str(digits)]:
            return int(digits)
        case ["text", str(text)]:
            return text
        case ["rest"]:
            return None
        case [Absent.NULL.value]:
            return Absent.NULL
    raise _malformed()


def _integers(data: object) -> tuple[int, ...]:
    if isinstance(data, list) and {str}.issuperset(map(type, data)):
        return tuple(map(int, data))
    raise _malformed()


def _integer(data: object) -> int:
    return int(_text(data))


def _text(data: object) -> str:
    if isinstance(data, str):
        return data
    raise _malformed()


def _malformed() -> MalformedEvent:
    return MalformedEvent(
        "A stored answer does not read back.",
        "It is not the text that was written when the answer was released.",
        "Restore the ledger from a copy; nothing was released.",
    )
