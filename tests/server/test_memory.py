"""What the process no longer uses goes back to the operating system."""

import asyncio
import platform
import subprocess
import sys

import pytest

from sfumato.server import memory

_FRAGMENTED = """
import random, threading
from sfumato.server.memory import _trim

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1])

draw, kept = random.Random(1), []

def allocate():
    blocks = [bytearray(draw.randrange(600, 20_000)) for _ in range(2_000)]
    kept.extend(blocks[::50])

for _ in range(6):
    threads = [threading.Thread(target=allocate) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
before = resident()
_trim()(0)
print(before, resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="Only glibc has a function for it.")
def test_free_pages_between_blocks_in_use_are_returned() -> None:
    run = subprocess.run([sys.executable, "-c", _FRAGMENTED], capture_output=True, text=True, check=True)
    before, after = map(int, run.stdout.split())
    assert after < 0.7 * before


def test_memory_is_returned_for_as_long_as_the_server_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    returned = list[int]()

    def trim(kept: int) -> int:
        returned.append(kept)
        return 1

    async def until_three() -> None:
        task = asyncio.create_task(memory.return_free_memory())
        while len(returned) < 3:
            await asyncio.sleep(0)
        task.cancel()

    monkeypatch.setattr(memory, "RETURN_SECONDS", 0.0)
    monkeypatch.setattr(memory, "_trim", lambda: trim)
    asyncio.run(until_three())
    assert returned[:3] == [0, 0, 0]


def test_a_c_library_without_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_trim", lambda: None)
    asyncio.run(asyncio.wait_for(memory.return_free_memory(), 60))
