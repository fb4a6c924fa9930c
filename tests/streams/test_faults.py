"""A fault at each write and sync of a step: whatever was shown is stored, and is never drawn a second time.

Faults are injected into the system calls by strace. Where there is none the tests are skipped, in CI they fail.
"""

import shutil
from pathlib import Path

import pytest
from tests.faults import Fault, every_fault, left_by_sweeps
from tests.ledger.accounts import policy_in
from tests.streams.injected import STEPS, STREAM, feed, shown_in, sweep

from sfumato.ledger.opening import open_ledger
from sfumato.streams.stream import Stream

KILL = "signal=SIGKILL"
TOO_EARLY = Fault("fdatasync", KILL, 16, planted=True)
SWEEPS = (
    (
        TOO_EARLY,
        Fault("pwrite64", KILL, 56),
        Fault("fdatasync", KILL, 16),
        Fault("fsync", KILL, 14),
        Fault("link", KILL, 3),
        Fault("ftruncate", KILL, 5),
    ),
    (Fault("pwrite64", "error=ENOSPC", 56), Fault("fdatasync", "error=EIO", 16)),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return left_by_sweeps(tmp_path_factory.mktemp("faults"), SWEEPS, sweep)


@every_fault(SWEEPS)
def test_after_a_fault_at_any_call_the_stream_goes_on_from_what_was_shown(
    folder: Path, place: str, fault: Fault
) -> None:
    seen_before = set()
    for home in fault.homes(folder / place):
        seen = shown_in(home)
        seen_before.add(len(seen))
        if not (home / STREAM).exists():
            assert not seen  # it never began; what was charged for it stays charged
            continue
        ledger = open_ledger(policy_in(home, 1))
        ledger.verify()
        with Stream.open(home / STREAM, ledger=ledger) as stream:
            stored = [row.tobytes().hex() for row in stream.released]
            assert [stored[time - 1] for time, _ in seen] == [estimate for _, estimate in seen]
            assert len(seen) <= stream.time <= len(seen) + 1  # at most one step was stored and not shown
        ledger.close()
    assert max(seen_before) == STEPS
    if fault.call in ("pwrite64", "fdatasync"):
        assert seen_before == set(range(STEPS + 1))  # the faults met every part of the path


def test_a_step_that_is_shown_before_it_is_stored_is_found(folder: Path) -> None:
    behind = 0
    for home in TOO_EARLY.homes(folder / "0"):
        if (home / STREAM).exists():
            ledger = open_ledger(policy_in(home, 1))
            with Stream.open(home / STREAM, ledger=ledger) as stream:
                behind += len(shown_in(home)) > stream.time
            ledger.close()
    assert behind


@pytest.mark.parametrize("fault", [fault for fault in SWEEPS[0] if not fault.planted], ids=lambda fault: fault.call)
def test_a_stream_that_is_created_again_after_a_fault_is_charged_once(folder: Path, fault: Fault) -> None:
    for home in fault.homes(folder / "0")[::6]:
        again = home.with_name(f"{home.name} again")
        shutil.copytree(home, again)
        feed(again, STEPS)
        ledger = open_ledger(policy_in(again, 1))
        assert len(ledger.history()) == 1
        ledger.close()
        assert not (again / f"{STREAM}.attempt").exists()


def test_after_a_fault_the_stream_can_be_fed_to_its_end(folder: Path) -> None:
    for home in Fault("pwrite64", KILL, 56).homes(folder / "0")[28::4]:
        feed(home, STEPS + 1)
        times = [time for time, _ in shown_in(home)]
        assert times == sorted(set(times))  # no step was shown twice
        assert times[-1] == STEPS + 1
