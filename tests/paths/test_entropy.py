"""Where the operating system gives no random bits, whoever needs them first: a refusal, never a trace."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.made_up_clinic import fresh_clinic

import sfumato

SQL = "SELECT COUNT(*) AS n FROM visits"
COSTLY = "0.3"


@pytest.mark.parametrize("from_call", [1, 2, 3])
def test_a_machine_without_entropy_refuses_whichever_library_asks_first(tmp_path: Path, from_call: int) -> None:
    """Fail this call of getrandom and all later ones: at imports, and at each seed of our generator.

    Later calls are the engine's own: no noise rests on them.
    """
    strace = shutil.which("strace")
    if strace is None:
        assert not os.environ.get("CI"), "strace is needed to inject faults"
        pytest.skip("NO FAULT WAS INJECTED: strace is not installed")
    policy = fresh_clinic(tmp_path)
    fault = ["-e", "trace=getrandom", "-e", f"inject=getrandom:error=EIO:when={from_call}+"]
    asked = [sys.executable, "-m", "sfumato", "ask", str(policy), SQL, "--epsilon", COSTLY]
    done = subprocess.run(
        [strace, "-f", "-qqq", "-o", os.devnull, *fault, *asked],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},  # else the interpreter itself ends before it begins
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(("Refused (entropy_failed)", "Refused (engine_failed)")), done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout
    with sfumato.open(policy) as database:  # whatever was charged is on record, and no answer is
        assert all(entry.release is None for entry in database.history())
