"""On a system without Linux's locks the client works, and everything that opens data is refused in words.

The systems are imitated in a process of its own: their modules and names are taken away before sfumato is imported.
"""

import subprocess
import sys
from pathlib import Path

import pytest

WINDOWS = """
for module in ("fcntl", "resource", "pwd", "grp", "termios", "readline"):
    sys.modules[module] = None
for name in ("register_at_fork", "fork", "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "geteuid", "getuid"):
    delattr(os, name)
del signal.SIGHUP
"""
MACOS = """
import fcntl
for name in ("F_OFD_GETLK", "F_OFD_SETLK", "F_OFD_SETLKW"):
    delattr(fcntl, name)
"""
SYSTEMS = {"Windows": WINDOWS, "macOS": MACOS}
CLIENT = """
import http.server, json, threading
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"used": "1/4", **{part: {"epsilon": "1", "delta": "0"} for part in PARTS}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
PARTS = ("total", "spent", "remaining")
server = http.server.HTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
import sfumato
with sfumato.connect(f"http://127.0.0.1:{server.server_port}/", token="x" * 43) as database:
    assert database.budget().spent.epsilon == 1
"""
OPENING = """
import sfumato
try:
    sfumato.open("clinic.toml")
except sfumato.Refusal as refusal:
    assert refusal.code == "ledger_unavailable", refusal.code
    assert "WSL 2" in str(refusal)
else:
    raise AssertionError("it was opened")
"""
COMMANDS = """
from click.testing import CliRunner
from sfumato.cli import main
assert CliRunner().invoke(main, ["--help"]).exit_code == 0
for words in (["check", "clinic.toml"], ["ask", "clinic.toml", "SELECT COUNT(*) FROM visits", "--epsilon", "1"],
              ["serve", "clinic.toml"], ["grant", "clinic.toml", "research"], ["backup", "clinic.toml", "there"]):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and "WSL 2" in done.output, (words, done.output, done.exception)
"""


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("action", [CLIENT, OPENING, COMMANDS], ids=["client", "open", "commands"])
def test_another_system_has_the_client_and_is_told_why_it_has_no_more(system: str, action: str, tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("patient_id\n1\n")
    (tmp_path / "clinic.toml").write_text(
        'source = "csv:visits.csv"\nbudget = { epsilon = 1, delta = 0 }\nanalysts.research.epsilon = 1\n'
        'tables.visits = { unit = "patient_id", rows_per_unit = 1, columns.patient_id.type = "integer" }\n'
    )
    script = "import os, signal, sys\n" + SYSTEMS[system] + action
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
