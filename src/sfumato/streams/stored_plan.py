"""A plan and a step as bytes in a stream's file; whatever does not read back as exactly one of them is damage."""

import json
import struct
from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from sfumato.accounting.event import to_json
from sfumato.errors import Refusal
from sfumato.streams.plans import GaussianSums, PeriodTables, StreamPlan, TreeSums, UnboundedSums, WindowEvents
from sfumato.streams.processes import Process, Step
from sfumato.streams.rows import packed, unpacked
from sfumato.streams.stream_file import damaged
from sfumato.streams.toeplitz import Integers

_KINDS: dict[str, type[StreamPlan]] = {
    kind.__name__: kind for kind in (GaussianSums, TreeSums, PeriodTables, UnboundedSums, WindowEvents)
}
_OPENING = struct.Struct("<BH")  # published or not, and how many bytes each noisy integer takes


@dataclass(frozen=True, slots=True)
class StreamHeader:
    """What a stream is, from its first byte on."""

    id: str
    """Random."""
    plan: StreamPlan
    charge: int | None
    """The place of its charge in the ledger; None where the caller charges it elsewhere."""
    description: str = ""
    """What it is about, for people."""


def head_to_bytes(head: StreamHeader) -> bytes:
    """Write a head as canonical JSON. The event is in it, so that a plan that would mean another one is noticed."""
    plan = {field.name: _as_data(getattr(head.plan, field.name)) for field in fields(head.plan)}
    data = {
        "id": head.id,
        "kind": type(head.plan).__name__,
        "plan": plan,
        "event": to_json(head.plan.event),
        "charge": head.charge,
        "words": head.description,
    }
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def head_from_bytes(text: bytes) -> StreamHeader:
    """Read a head back, or refuse it."""
    try:
        data = json.loads(text)
        make: Any = _KINDS[data["kind"]]
        head = StreamHeader(data["id"], make(**data["plan"]), data["charge"], data["words"])
        same = head_to_bytes(head) == text
    except (Refusal, ValueError, TypeError, KeyError):
        same = False
    if not same:
        raise damaged("Its plan is not one that this program would carry out in the same way.")
    return head


def plan_words(plan: StreamPlan) -> str:
    """Return a plan as one line of text.

    >>> from sfumato.accounting.event import Neighbours
    >>> plan_words(TreeSums(100, Fraction(10), Neighbours.ADD_REMOVE))
    'TreeSums(horizon=100, scale=10, neighbours=add-remove)'
    """
    given = [field for field in fields(plan) if getattr(plan, field.name) != field.default]
    return f"{type(plan).__name__}({', '.join(f'{one.name}={getattr(plan, one.name)}' for one in given)})"


def noisy_to_bytes(noisy: Integers) -> tuple[int, bytes]:
    """Write noisy integers in the fewest bytes that hold them all, and say how many bytes that is for each."""
    if noisy.dtype == np.int64:
        return 8, packed(noisy, 8)
    width = max(int(value).bit_length() for value in noisy.tolist()) // 8 + 1
    return width, packed(noisy, width)


def step_to_bytes(step: Step) -> bytes:
    """Write all of a step but its state."""
    width, noisy = noisy_to_bytes(step.noisy)
    parts = [_OPENING.pack(step.published, width), noisy]
    if step.value is not None:
        parts.append(packed(step.value, 8))
    if step.move is not None:
        parts.append(step.move.astype("<f8").tobytes())
    return b"".join(parts)


def step_from_bytes(payload: bytes, cells: int, process: Process, state: bytes) -> Step:
    """Read a step back; `state` is what its sealed end opens to, where anybody can still open it."""
    published, width = _OPENING.unpack_from(payload)
    lengths = (width * cells, 8 * cells * process.keeps_values, 8 * cells * process.decodes)
    if len(payload) != _OPENING.size + sum(lengths) + process.state_size:
        raise damaged("A step has another length than its plan says.")
    ends = np.cumsum((_OPENING.size, *lengths)).tolist()
    noisy, value, move = (payload[start:end] for start, end in pairwise(ends))
    return Step(
        np.frombuffer(noisy, dtype="<i8").astype(np.int64) if width == 8 else unpacked(noisy, width),
        np.frombuffer(value, dtype="<i8").astype(np.int64) if process.keeps_values else None,
        np.frombuffer(move, dtype="<f8").astype(np.float64) if process.decodes else None,
        bool(published),
        state,
    )


def _as_data(value: object) -> object:
    match value:
        case Enum():
            return value.value
        case Fraction():
            return str(value)
        case _:
            return value
