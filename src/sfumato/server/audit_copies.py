"""Copies of audit lines for other machines: to the standard output, or to syslog in the format of RFC 5424."""

import os
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from logging import LogRecord
from logging.handlers import SysLogHandler

from sfumato.errors import BadParameter, quote_value

AuditCopy = Callable[[bytes], None]
"""Takes one line; OSError where it could not be sent. The file stays the record."""
_LOCAL_SYSLOG = "/dev/log"


def open_audit_copy(target: str) -> AuditCopy:
    """Return where copies go: `stdout`, `syslog` (this machine's), or `syslog:HOST:PORT` (UDP)."""
    if target == "stdout":
        return _to_stdout
    scheme, _, address = target.partition(":")
    if scheme == "syslog":
        host, _, port = address.rpartition(":")
        if not address:
            return _Syslog(_LOCAL_SYSLOG)
        if host and port.isascii() and port.isdigit() and int(port) < 1 << 16:
            return _Syslog((host.strip("[]"), int(port)))
    raise BadParameter(
        f"--audit-copy = {quote_value(target)} is no place for copies of the audit log.",
        "They go to the standard output or to syslog.",
        "Write stdout, syslog or syslog:HOST:PORT.",
    )


def _to_stdout(line: bytes) -> None:
    sys.stdout.write(line.decode() + "\n")
    sys.stdout.flush()


class _Syslog(SysLogHandler):
    """Sends lines with the header of RFC 5424; an error is the caller's."""

    append_nul = False

    def __init__(self, address: str | tuple[str, int]) -> None:
        try:
            super().__init__(address, facility=SysLogHandler.LOG_AUTHPRIV)
            return
        except OSError:
            pass
        raise BadParameter(
            "The syslog service cannot be reached.",
            "Copies of the audit log are sent to it.",
            "Start it, or write syslog:HOST:PORT.",
        )

    def __call__(self, line: bytes) -> None:
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        header = f"1 {time} {socket.gethostname() or '-'} sfumato {os.getpid()} audit -"
        self.emit(LogRecord("sfumato.audit", 20, "", 0, f"{header} {line.decode()}", None, None))

    def handleError(self, record: LogRecord) -> None:  # noqa: N802  (the name is that of the standard library)
        """Raise the error again: it is counted, and not printed."""
        raise sys.exception() or OSError
