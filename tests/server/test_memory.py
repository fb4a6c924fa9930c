"""What the process no longer uses goes back to the operating system."""

import asyncio
import platform
import subprocess
import sys

import pytest

from sfumato.server import memory

_FRAGMENTED = """
import random, threading
from sfumato.server.memory import _c_function

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
_c_function('malloc_trim')(0)
print(before, resident())
"""


_THREADS = """
import ctypes, tempfile, threading
from sfumato.server.memory import limit_free_memory

if {few}:
    limit_free_memory()
allocated, done = threading.Barrier(9), threading.Event()

def allocate():
    block = bytearray(50_000)
    allocated.wait()
    done.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
allocated.wait()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as report:
    stream = ctypes.c_void_p(libc.fopen(report.name.encode(), b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    print(report.read().count(b"<heap nr="))
done.set()
"""


_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="Only glibc has functions for it.")


def _areas(few: bool) -> int:
    """Return how many areas eight threads and the main thread allocate from, as the C library reports them."""
    run = subprocess.run([sys.executable, "-c", _THREADS.format(few=few)], capture_output=True, text=True, check=True)
    return int(run.stdout)


@_glibc
def test_all_threads_allocate_from_few_areas() -> None:
    assert _areas(few=True) <= memory.MAX_ARENAS < 4 <= _areas(few=False)


_LARGE = """
from sfumato.server.memory import MAPPED_BYTES, limit_free_memory

if {few}:
    limit_free_memory()

def heap_bytes():
    with open("/proc/self/maps") as maps:
        first, last = next(line.split()[0] for line in maps if "[heap]" in line).split("-")
    return int(last, 16) - int(first, 16)

del bytearray(8 * MAPPED_BYTES)[:]
before = heap_bytes()
large = [bytearray(4 * MAPPED_BYTES) for _ in range(64)]
print((heap_bytes() - before) // MAPPED_BYTES)
"""


@_glibc
def test_large_blocks_leave_no_holes_between_small_ones() -> None:
    """By default the C library puts them among the small ones as soon as one of their size was freed."""
    grown = {
        few: int(subprocess.check_output([sys.executable, "-c", _LARGE.format(few=few)], text=True))
        for few in (True, False)
    }
    assert grown[True] == 0 < grown[False]


@_glibc
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
    monkeypatch.setattr(memory, "_c_function", lambda name: {"malloc_trim": trim}[name])
    asyncio.run(until_three())
    assert returned[:3] == [0, 0, 0]


def test_a_c_library_without_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_c_function", lambda name: None)
    memory.limit_free_memory()
    asyncio.run(asyncio.wait_for(memory.return_free_memory(), 60))
