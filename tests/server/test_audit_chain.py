"""The audit log is a hash chain: across files, servers and crashes, and whatever is done to a line is found."""

import json
import socket
from pathlib import Path

import pytest

from sfumato.errors import AuditDamaged, BadParameter
from sfumato.server import audit as module
from sfumato.server.audit import Audit
from sfumato.server.audit_chain import verify_audit
from sfumato.server.audit_copies import open_audit_copy


def write(log: Audit, *receipts: object) -> None:
    for receipt in receipts:
        log.write("http", "10.0.0.1", "research", "ask", "ok", str(receipt))


def test_every_change_removal_and_insertion_of_a_line_is_found(tmp_path: Path) -> None:
    path = tmp_path / "x.audit"
    write(Audit(path), *range(6))
    lines = path.read_bytes().splitlines(keepends=True)
    assert verify_audit(path).lines == len(lines) == 6
    for place in range(len(lines) - 1):  # the last line has no line after it that names it
        before, line, after = lines[:place], lines[place], lines[place + 1 :]
        changed = line.replace(b"research", b"resebrch")
        for damaged in (before + after, [*before, changed, *after], [*before, line, line, *after], [*after, *before]):
            path.write_bytes(b"".join(damaged))
            with pytest.raises(AuditDamaged):
                verify_audit(path)
    path.write_bytes(b"".join(lines))
    assert verify_audit(path).lines == 6


def test_the_chain_goes_on_across_files_and_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LOG_BYTES", 1000)
    path = tmp_path / "x.audit"
    logs = [Audit(path) for _ in range(3)]
    for number in range(60):
        write(logs[number * number % 3], number)
    assert verify_audit(path).lines == 60
    assert len(list(tmp_path.glob("x.audit.[0-9]*"))) > 3
    (tmp_path / "x.audit.2").unlink()
    (tmp_path / "x.audit.3").rename(tmp_path / "x.audit.2")
    with pytest.raises(AuditDamaged):
        verify_audit(path)


def test_lines_without_a_chain_and_a_line_that_a_crash_cut_are_continued(tmp_path: Path) -> None:
    path = tmp_path / "x.audit"
    path.write_bytes(b'{"time": "before there was a chain"}\n')
    write(Audit(path), 1)
    with path.open("ab") as stream:
        stream.write(b'{"sequence": 2, "time"')
    write(Audit(path), 2, 3)
    assert verify_audit(path).lines == 5
    with path.open("ab") as stream:
        stream.write(b'{"time": "forged without a chain"}\n')
    with pytest.raises(AuditDamaged):
        verify_audit(path)


def test_copies_are_sent_in_the_form_of_rfc_5424_and_the_file_stays_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.audit"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as syslog:
        syslog.bind(("127.0.0.1", 0))
        syslog.settimeout(10)
        copies = [open_audit_copy(f"syslog:127.0.0.1:{syslog.getsockname()[1]}"), open_audit_copy("stdout")]
        log = Audit(path, copies=copies)
        write(log, 1)
        log.close()
        sent = syslog.recv(1 << 16).decode()
    line = path.read_text().strip()
    priority, _, rest = sent.partition(">")
    assert priority == "<86"  # authpriv.info
    version, _, _, program, _, kind, data, text = rest.split(" ", 7)
    assert (version, program, kind, data) == ("1", "sfumato", "audit", "-")
    assert text == line == capsys.readouterr().out.strip()
    assert json.loads(line)["sequence"] == 1


def test_a_copy_that_cannot_be_sent_is_counted_and_loses_nothing(tmp_path: Path) -> None:
    def fail(_: bytes) -> None:
        raise OSError

    log = Audit(tmp_path / "x.audit", copies=[fail])
    write(log, 1)
    assert verify_audit(tmp_path / "x.audit").lines == 1
    assert b"sfumato_audit_copy_failures_total 1.0" in log.metrics.render({}, {}, {})


@pytest.mark.parametrize("target", ["", "file", "syslog:host", "syslog:host:99999", "stdout:x"])
def test_a_target_that_means_nothing_is_refused(target: str) -> None:
    with pytest.raises(BadParameter):
        open_audit_copy(target)
