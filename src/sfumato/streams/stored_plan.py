"""Encode plans and steps as bytes of a stream's file; refuse bytes that do not decode to exactly one of them."""

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
from sfumato.streams.rows import pack_integers, unpack_integers
from sfumato.streams.stream_file import stream_damaged
from sfumato.streams.toeplitz import Integers

_KINDS: dict[str, type[StreamPlan]] = {
    kind.__name__: kind for kind in (GaussianSums, TreeSums, PeriodTables, UnboundedSums, WindowEvents)
}
_OPENING = struct.Struct("<BH")  # published or not, and how many bytes each noisy integer takes


@dataclass(frozen=True, slots=True)
class StreamHeader:
    """Identity, plan and charge of a stream."""

    id: str
    """Random."""
    plan: StreamPlan
    charge: int | None
    """Ledger sequence of its charge; None if the caller charges it elsewhere."""
    description: str = ""
    """Description for people."""


def head_to_bytes(head: StreamHeader) -> bytes:
    """Write a header as canonical JSON. It contains the event, so a plan whose event changed is noticed."""
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
    """Read a header, or refuse it."""
    try:
        data = json.loads(text)
        make: Any = _KINDS[data["kind"]]
        head = StreamHeader(data["id"], make(**data["plan"]), data["charge"], data["words"])
        same = head_to_bytes(head) == text
    except (Refusal, ValueError, TypeError, KeyError):
        same = False
    if not same:
        raise stream_damaged("Its plan is not one that this program would carry out in the same way.")
    return head


def describe_plan(plan: StreamPlan) -> str:
    """Return a plan as one line of text.

    >>> from sfumato.accounting.event import Neighbours
    >>> describe_plan(TreeSums(100, Fraction(10), Neighbours.ADD_REMOVE))
    'TreeSums(horizon=100, scale=10, neighbours=add-remove)'
    """
    set_fields = [field for field in fields(plan) if getattr(plan, field.name) != field.default]
    return f"{type(plan).__name__}({', '.join(f'{field.name}={getattr(plan, field.name)}' for field in set_fields)})"


def noisy_to_bytes(noisy: Integers) -> tuple[int, bytes]:
    """Write noisy integers with the smallest common width; return that width in bytes, and the bytes."""
    if noisy.dtype == np.int64:
        return 8, pack_integers(noisy, 8)
    width = max(int(value).bit_length() for value in noisy.tolist()) // 8 + 1
    return width, pack_integers(noisy, width)


def step_to_bytes(step: Step) -> bytes:
    """Write a step without its state."""
    width, noisy = noisy_to_bytes(step.noisy)
    parts = [_OPENING.pack(step.published, width), noisy]
    if step.value is not None:
        parts.append(pack_integers(step.value, 8))
    if step.move is not None:
        parts.append(step.move.astype("<f8").tobytes())
    return b"".join(parts)


def step_from_bytes(payload: bytes, cells: int, process: Process, state: bytes) -> Step:
    """Read a step; `state` is its decrypted state, if its key still exists."""
    published, width = _OPENING.unpack_from(payload)
    lengths = (width * cells, 8 * cells * process.keeps_values, 8 * cells * process.decodes)
    if len(payload) != _OPENING.size + sum(lengths) + process.state_size:
        raise stream_damaged("A step has another length than its plan says.")
    ends = np.cumsum((_OPENING.size, *lengths)).tolist()
    noisy, value, move = (payload[start:end] for start, end in pairwise(ends))
    return Step(
        np.frombuffer(noisy, dtype="<i8").astype(np.int64) if width == 8 else unpack_integers(noisy, width),
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
