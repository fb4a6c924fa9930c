"""Operational log as JSON lines: what `diagnostics` records, and one line per request. No data value, no question."""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from sfumato.diagnostics import logger


class JsonFormatter(logging.Formatter):
    """One JSON object per record, with the fields of `record.sfumato`. Other texts are left out: they may hold data."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields = getattr(record, "sfumato", {"event": "message"})
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": time, "level": record.levelname.lower(), **fields}, default=str)


@contextmanager
def json_log() -> Iterator[None]:
    """Write the records of sfumato to the standard error stream while the block runs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
