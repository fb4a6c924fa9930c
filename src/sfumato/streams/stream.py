"""A stream: one plan executed step by step, in one file; every step is durable before it is returned.

No step is ever drawn twice: not after a crash, not by a second handle, and, with a ledger, not from an old copy of the
file, since the ledger stores the progress of the stream. Proof: proofs/stream_file.md
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Self

import numpy as np

from sfumato.accounting.event import LaplaceNoise
from sfumato.errors import BadParameter, Refusal, quote_value
from sfumato.exact import integer
from sfumato.ledger.charge import Charge
from sfumato.ledger.ledger import Ledger
from sfumato.mechanisms.answers import integer_answers
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import Source, system_source
from sfumato.streams.charging import charge_stream, forget_attempt, require_known, stream_attempt
from sfumato.streams.plans import (
    MAX_STEP_VALUE,
    GaussianSums,
    NextShare,
    PeriodTables,
    StreamPlan,
    TreeSums,
    UnboundedSums,
    WindowEvents,
)
from sfumato.streams.processes import Step, StepValues, process_of
from sfumato.streams.rows import GrowingRows
from sfumato.streams.stored_plan import (
    StreamHeader,
    describe_plan,
    head_from_bytes,
    head_to_bytes,
    noisy_to_bytes,
    step_from_bytes,
    step_to_bytes,
)
from sfumato.streams.stream_file import StreamFile, require_absent
from sfumato.streams.toeplitz import Floats, Integers


@dataclass(frozen=True, slots=True)
class Released:
    """The released values of one step."""

    time: int
    estimate: Floats
    """One number per cell: the sums so far, or the current values, as the plan says."""


class Stream:
    """An open stream. Threads may share it; a second handle on its file is refused. Close it when done."""

    def __init__(self, file: StreamFile, head: StreamHeader, ledger: Ledger | None) -> None:
        self._file = file
        self._head = head
        self._ledger = ledger
        self._lock = RLock()
        self._process = process_of(head.plan)
        self._raw: list[Integers] = []
        self._published: list[bool] = []
        self._released = GrowingRows(head.plan.cells, np.float64)
        self._digests = [sha256(head_to_bytes(head)).digest()]
        """Hash chain over noisy numbers, stored in the ledger. The last two links are enough."""

    @classmethod
    def create(
        cls, path: str | Path, plan: StreamPlan, *, ledger: Ledger | None = None, account: str = "", words: str = ""
    ) -> "Stream":
        """Begin a stream in a new file.

        With a `ledger` the plan's event is charged to `account` now, once for the whole stream; `words` describes it in
        the history. Without one the caller charges `plan.event`, and an old copy of the file goes unnoticed.
        """
        stream_file, read_plan = stream_path(path), _read_plan(plan)
        if not isinstance(words, str) or not words.isprintable():
            raise BadParameter(
                "The description is not a line of text.", "It is listed in the history.", "Give plain text."
            )
        if ledger is None:
            head = StreamHeader(fresh_id(system_source()), read_plan, None, words)
            return cls(StreamFile.create(stream_file, head_to_bytes(head)), head, None)
        require_absent(stream_file)  # before anything is charged
        identity = [ledger.identity(), account, head_to_bytes(StreamHeader("", read_plan, None, words)).decode()]
        created: list[Stream] = []
        with stream_attempt(stream_file, identity) as name:

            def begin(charge: Charge) -> str:
                head = StreamHeader(name, read_plan, charge.sequence, words)
                text = head_to_bytes(head)
                ledger.record_progress(charge.sequence, 0, sha256(text).hexdigest())  # first: a file can be opened
                created.append(cls(StreamFile.create(stream_file, text), head, ledger))
                return text.decode()

            try:
                shown_as = words or f"{describe_plan(read_plan)}: {read_plan.protects}"
                charge_stream(ledger, account, read_plan.event, begin, name=name, words=shown_as)
            except BaseException:
                for stream in created:
                    stream.close()
                raise
        if created:
            return created[0]
        # the stream of that attempt was complete, and its file was removed since: this is another one
        return cls.create(path, plan, ledger=ledger, account=account, words=words)

    @classmethod
    def open(cls, path: str | Path, *, ledger: Ledger | None = None) -> "Stream":
        """Open a stream at its last step. A stream charged to a ledger needs that ledger."""
        file, payloads = StreamFile.open(stream_path(path))
        try:
            head = head_from_bytes(file.head)
            stream = cls(file, head, ledger)
            for payload in payloads:
                last = len(stream._raw) + 1 == len(payloads)
                size = stream._process.state_size
                state = file.open_state(payload, size) if size and last else b""
                stream._accept(step_from_bytes(payload, head.plan.cells, stream._process, state))
            digests = [digest.hex() for digest in stream._digests[-2:]]
            require_known(ledger, head.charge, len(payloads), digests)
            forget_attempt(stream_path(path))
        except BaseException:
            file.close()
            raise
        return stream

    @property
    def plan(self) -> StreamPlan:
        """The plan of the stream."""
        return self._head.plan

    @property
    def words(self) -> str:
        """The description given when it was created."""
        return self._head.description

    @property
    def time(self) -> int:
        """Number of steps so far."""
        return len(self._raw)

    @property
    def raw(self) -> Integers:
        """The noisy measurements, a row of integers per step. Everything else is computed from them."""
        with self._lock:
            rows = list(self._raw)
        if not rows:
            return np.zeros((0, self.plan.cells), dtype=np.int64)
        if all(row.dtype == np.int64 for row in rows):
            return np.stack(rows)
        return np.stack([row.astype(object) for row in rows])

    @property
    def released(self) -> Floats:
        """The released numbers, a row per step."""
        with self._lock:
            return self._released.rows.copy()

    @property
    def charges(self) -> tuple[tuple[LaplaceNoise, ...], ...]:
        """Events of each step of a `WindowEvents`: its decision and, if there was one, its publication.

        Steps of other plans have no events of their own: the stream was charged when it was created.
        """
        plan = self.plan
        if not isinstance(plan, WindowEvents):
            return ((),) * self.time
        charges: list[tuple[LaplaceNoise, ...]] = []
        following = NextShare(plan)
        for published in list(self._published):
            publication = (plan.publication(following.share),) if published else ()
            charges.append((plan.decision, *publication))
            following = following.next_step(published)
        return tuple(charges)

    def observe(self, values: object, source: Source | None = None) -> Released:
        """Take one step: exact integers in, one per cell; noisy numbers out, durable before they are returned.

        A refused call is not a step.
        """
        with self._lock:
            self._file.require_usable()
            exact = self._read_values(values)
            time = self._require_next()
            step = self._process.take(time, exact, source or system_source())
            self._file.commit(step_to_bytes(step), step.state)
            try:
                if self._ledger is not None and self._head.charge is not None:
                    self._ledger.record_progress(self._head.charge, time, self._digest_after(step).hex())
                estimate = self._accept(step)  # from here on it can be seen
            except BaseException:
                self._file.fail()  # stored, and not shown: opening the stream again shows it
                raise
            return Released(time, estimate.copy())

    def window(self, width: int) -> Floats:
        """Return the sums over the last `width` steps: free, from released numbers."""
        steps = integer(width, "width", 1)
        with self._lock:
            rows = self._released.rows
            if isinstance(self.plan, PeriodTables | WindowEvents):
                return np.asarray(rows[-steps:].sum(axis=0), dtype=np.float64)
            if not len(rows):
                return np.zeros(self.plan.cells)
            before = rows[-steps - 1] if steps < len(rows) else np.zeros(self.plan.cells)
            return np.asarray(rows[-1] - before, dtype=np.float64)

    def close(self) -> None:
        """Let go of the file. Closing twice is fine."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<stream of {describe_plan(self.plan)}, {self.time} steps>"

    def _read_values(self, values: object) -> StepValues:
        """Read one integer per cell; a refusal repeats no value."""
        truths = isinstance(values, list | tuple) and any(isinstance(value, bool | np.bool_) for value in values)
        try:
            exact = integer_answers(None if truths else values)  # numpy would count True as 1
        except Refusal:
            exact = np.zeros((0, 0), dtype=np.int64)
        if exact.shape == () and self.plan.cells == 1:
            exact = exact.reshape(1)
        fits = exact.shape == (self.plan.cells,)
        if not fits or bool((np.abs(exact) > MAX_STEP_VALUE).any()):
            raise BadParameter(
                "The values of this step are not one integer per cell.",
                f"The plan has {self.plan.cells} cells, and each takes an integer between -2^40 and 2^40.",
                "The step does not count. Give a list or array of integers of that length.",
            )
        return exact.astype(np.int64)

    def _require_next(self) -> int:
        time = self.time + 1
        horizon = None if isinstance(self.plan, UnboundedSums | WindowEvents) else self.plan.horizon
        if horizon is not None and time > horizon:
            raise BadParameter(
                f"Step {time} is after the horizon.",
                f"The noise was made for {horizon} steps, and one more is not paid for.",
                "Create another stream, which is another charge.",
            )
        return time

    def _accept(self, step: Step) -> Floats:
        self._digests = [self._digests[-1], self._digest_after(step)]
        estimate = self._process.accept(step)
        self._raw.append(step.noisy)
        self._published.append(step.published)
        self._released.append(estimate)
        return estimate

    def _digest_after(self, step: Step) -> bytes:
        width, noisy = noisy_to_bytes(step.noisy)
        return sha256(self._digests[-1] + b"%d:" % width + noisy).digest()


def stream_path(path: object) -> Path:
    """Read the path of a stream's file: a name that a file can have."""
    with suppress(UnicodeEncodeError):
        if isinstance(path, str | Path) and Path(path).name and b"\0" not in os.fsencode(path):
            return Path(path)
    raise BadParameter(f"{quote_value(path)} is not a path.", "A stream is one file.", "Give the path of a file.")


def _read_plan(plan: object) -> StreamPlan:
    if isinstance(plan, GaussianSums | TreeSums | PeriodTables | UnboundedSums | WindowEvents):
        return plan
    raise BadParameter(
        f"{quote_value(plan)} is not a plan.",
        "A stream carries out a plan.",
        "Give one of GaussianSums, TreeSums, PeriodTables, UnboundedSums, WindowEvents.",
    )
