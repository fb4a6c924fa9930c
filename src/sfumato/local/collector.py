"""A collector: reports come in as messages, files, HTTP requests or Arrow tables; a tally comes out and can be merged.

It holds no secret, only noisy reports.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.errors import BadParameter, Refusal, quote_value
from sfumato.local.tally import Tally, another_oracle

MAX_MESSAGE_BYTES = 1 << 24
_BATCH_REPORTS = 1 << 16
_COLUMNS = ("mechanism", "place", "support")
_REPORT_COUNT_PLACE = -1

Environment = dict[str, Any]
Start = Callable[[str, list[tuple[str, str]]], object]


class Counting(Protocol):
    """A mechanism whose reports can be read from bytes and counted: every oracle and every sketch."""

    def checked(self, reports: object) -> npt.NDArray[Any]: ...

    def decode(self, message: object) -> npt.NDArray[Any]: ...

    def tally(self, reports: object) -> Tally: ...


class Collector:
    """Reports to one mechanism, counted as they come; threads may share one. A message counts wholly or not at all."""

    __slots__ = ("_lock", "_tally", "_waiting", "mechanism")

    def __init__(self, mechanism: Counting) -> None:
        if not all(hasattr(mechanism, name) for name in ("checked", "decode", "tally")):
            raise BadParameter(
                f"{quote_value(mechanism)} cannot be collected.", "It has no tally.", "Give an oracle or a sketch."
            )
        self.mechanism = mechanism
        self._lock = Lock()
        self._waiting: list[npt.NDArray[Any]] = []
        self._tally: Tally | None = None

    def take(self, message: object) -> int:
        """Take one message that `encode` wrote, and return how many reports were in it."""
        return self._add(self.mechanism.decode(message))

    def take_file(self, path: Path | str) -> int:
        """Take a file that holds one message."""
        try:
            message = Path(path).read_bytes()
        except (OSError, TypeError, ValueError):  # missing, no path at all, or one with a zero octet
            raise BadParameter(
                f"The file {quote_value(str(path))} cannot be read.",
                "It is missing, or you may not read it.",
                "Name a file of reports.",
            ) from None
        return self.take(message)

    def take_arrow(self, table: Any) -> int:
        """Take an Arrow table, batch or reader, wholly or not at all.

        It has a binary column `message`, or a column `report` of integers or of lists of integers.
        """
        taken = []
        for batch in [table] if isinstance(table, pa.RecordBatch) else _batches(table):
            names = set(batch.schema.names)
            if "message" in names:
                taken += [self.mechanism.decode(message) for message in batch.column("message").to_pylist()]
            elif "report" in names:
                taken.append(self.mechanism.checked(_as_array(batch.column("report"))))
            else:
                raise _no_table()
        return sum(map(self._add, taken))

    def merge(self, tally: Tally) -> None:
        """Add what another machine counted."""
        with self._lock:
            self._flush()
            self._tally = self._count_reports() + tally

    @property
    def tally(self) -> Tally:
        """The tally of all reports so far."""
        with self._lock:
            self._flush()
            return self._count_reports()

    def application(self, environment: Environment, start: Start) -> Iterable[bytes]:
        """Answer HTTP: a WSGI application that takes the body of each POST as one message."""
        if environment.get("REQUEST_METHOD") != "POST":
            return _http_answer(start, "405 Method Not Allowed", "Send reports by POST.")
        length = str(environment.get("CONTENT_LENGTH") or "")
        if not length.isascii() or not length.isdigit():
            return _http_answer(start, "411 Length Required", "Say how long the message is.")
        if int(length) > MAX_MESSAGE_BYTES:
            return _http_answer(start, "413 Content Too Large", f"A message has at most {MAX_MESSAGE_BYTES} octets.")
        try:
            self.take(environment["wsgi.input"].read(int(length)))
        except Refusal as refusal:
            return _http_answer(start, "400 Bad Request", str(refusal))
        return _http_answer(start, "204 No Content", "")

    def _add(self, reports: npt.NDArray[Any]) -> int:
        with self._lock:
            self._waiting.append(reports)
            if sum(map(len, self._waiting)) >= _BATCH_REPORTS:
                self._flush()
        return len(reports)

    def _flush(self) -> None:
        """Count what waits: many small messages are counted together."""
        if self._waiting:
            counted = self.mechanism.tally(np.concatenate(self._waiting))
            self._tally = counted if self._tally is None else self._tally + counted
            self._waiting = []

    def _count_reports(self) -> Tally:
        if self._tally is None:
            self._tally = self.mechanism.tally([])
        return self._tally


def tally_table(tally: Tally) -> pa.Table:
    """Return a tally as an Arrow table (mechanism, place, support) whose supports any engine can sum by the others.

    The line with place -1 holds the number of reports.
    """
    if not isinstance(tally, Tally):
        raise another_oracle()
    support = tally.support.reshape(-1)
    places = np.arange(_REPORT_COUNT_PLACE, len(support))
    names = pa.DictionaryArray.from_arrays(np.zeros(len(places), dtype=np.int32), [repr(tally.oracle)])
    return pa.table([names.cast(pa.string()), places, np.append(tally.reports, support)], names=list(_COLUMNS))


def read_tally(mechanism: Counting, table: pa.Table) -> Tally:
    """Read a tally of this mechanism back, after sums over machines; lines of one place are added up."""
    if not hasattr(mechanism, "tally"):
        raise another_oracle()
    empty = mechanism.tally([])
    if not isinstance(table, pa.Table) or set(table.schema.names) != set(_COLUMNS):
        raise another_oracle()
    try:
        places = np.array(table.column("place").to_pylist(), dtype=np.int64)
        counts = np.array(table.column("support").cast(pa.int64()).to_pylist(), dtype=np.int64)
        names = set(table.column("mechanism").to_pylist())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, ValueError, OverflowError):
        raise another_oracle() from None
    size = empty.support.size
    if names != {repr(mechanism)} or set(places.tolist()) != set(range(_REPORT_COUNT_PLACE, size)):
        raise another_oracle()
    total = np.zeros(size + 1, dtype=np.int64)
    np.add.at(total, places + 1, counts)
    if int(total[0]) < 0:
        raise another_oracle()
    return Tally(empty.oracle, total[1:].reshape(empty.support.shape), int(total[0]))


def _batches(table: Any) -> list[Any]:
    if isinstance(table, pa.Table):
        return list(table.to_batches())
    if isinstance(table, pa.RecordBatchReader):
        return list(table)
    raise _no_table()


def _as_array(column: pa.Array) -> npt.NDArray[Any]:
    """Return integers, or lists of equal length of them, as an array."""
    if column.null_count == 0 and pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if column.null_count == 0 and pa.types.is_fixed_size_list(column.type) and column.flatten().null_count == 0:
        flat: npt.NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False)
        return flat.reshape(len(column), column.type.list_size)
    raise _no_table()


def _no_table() -> BadParameter:
    return BadParameter(
        "This is not an Arrow table of reports.",
        "It has a binary column `message`, or a column `report` of integers or lists of one length, without NULL.",
        "Give a table, a batch or a reader with such a column.",
    )


def _http_answer(start: Start, status: str, text: str) -> list[bytes]:
    body = text.encode()
    head = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    start(status, head if body else [])
    return [body] if body else []
