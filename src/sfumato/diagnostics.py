"""What the data owner can see of the path: log records without data values, and a debug file with engine messages.

Nothing here reaches analysts. Records go to the standard logger `sfumato`, which is silent until the program that runs
the database adds a handler. The debug file is written where SFUMATO_DEBUG_FILE names a path.
"""

import json
import logging
import os
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG

DEBUG_FILE_VARIABLE = "SFUMATO_DEBUG_FILE"
"""The environment variable that names the debug file."""
MAX_DEBUG_FILE_BYTES = 1 << 20
"""Size at which the debug file is moved to the same name with `.1`; the one that had this name is removed."""
MAX_FIELD_CHARS = 8_000
"""Maximum number of characters of a statement or a message in the debug file."""
_LABEL_CHARS = 12

logger = logging.getLogger("sfumato")
logger.addHandler(logging.NullHandler())


def log_event(event: str, **fields: object) -> None:
    """Log one step of the path at level INFO; `record.sfumato` holds its fields. No field may hold a data value."""
    if logger.isEnabledFor(logging.INFO):
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        logger.info("%s %s", event, text, extra={"sfumato": {"event": event, **fields}})


def statement_label(statement: str) -> str:
    """Return the name of a statement in the debug file: the beginning of its SHA-256."""
    return sha256(statement.encode(errors="replace")).hexdigest()[:_LABEL_CHARS]


def record_engine_failure(error: BaseException | str, statement: str = "") -> None:
    """Log that an engine failed, and keep its message for the data owner, where there is a debug file.

    `error` is what was raised, or a sentence where nothing was. The message may hold data values. It goes into the
    debug file alone, never into a log record.
    """
    kind = "" if isinstance(error, str) else type(error).__name__
    label = statement_label(statement) if statement else ""
    if logger.isEnabledFor(logging.WARNING):
        fields = {"event": "engine_failed", "statement": label, "error": kind}
        logger.warning("engine_failed statement=%s error=%s", label, kind, extra={"sfumato": fields})
    name = os.environ.get(DEBUG_FILE_VARIABLE)
    if name:
        line = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "label": label,
            "error": kind,
            "message": _shorten(str(error)),
            "statement": _shorten(statement),
        }
        with suppress(OSError, ValueError):  # a full disk is no reason to fail otherwise
            _append(Path(name), json.dumps(line).encode() + b"\n")


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_FIELD_CHARS else text[:MAX_FIELD_CHARS] + "…"


def _append(path: Path, line: bytes) -> None:
    """Append to a file that only its owner can read; a file that others can read is left alone."""
    if len(line) > MAX_DEBUG_FILE_BYTES:
        return
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    try:
        status = os.fstat(descriptor)
        if not S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_uid != os.geteuid():
            return
        if status.st_size + len(line) <= MAX_DEBUG_FILE_BYTES:
            os.write(descriptor, line)
            return
    finally:
        os.close(descriptor)
    path.replace(path.with_name(path.name + ".1"))
    _append(path, line)
