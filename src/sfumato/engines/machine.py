"""Resources of this machine: its memory and processors, or those that its container is allowed."""

import os
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
_MEMORY_FILES = ("memory.max", "memory/memory.limit_in_bytes")
_FALLBACK_BYTES = 4 << 30
"""Assumed where the system does not tell."""


def machine_memory(cgroups: Path = CGROUPS) -> int:
    """Return the bytes of memory that this process can have: of the machine, or of its container if that is less."""
    found = [_FALLBACK_BYTES]
    with suppress(OSError, ValueError, AttributeError):
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    found += [limit for name in _MEMORY_FILES if (limit := _number(cgroups / name, 0)) is not None]
    return min(found)


def machine_threads(cgroups: Path = CGROUPS) -> int:
    """Return the number of processors that this process can use: those it may run on, within its container's share."""
    try:
        found = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        found = os.cpu_count() or 1
    quota, period = _number(cgroups / "cpu.max", 0), _number(cgroups / "cpu.max", 1)
    if quota is None:
        quota, period = _number(cgroups / "cpu/cpu.cfs_quota_us", 0), _number(cgroups / "cpu/cpu.cfs_period_us", 0)
    return max(min(found, -(-quota // period)), 1) if quota and period else found


def _number(file: Path, at: int) -> int | None:
    """Return a positive number of a file; None where there is none, or where it says that there is no limit."""
    try:
        word = file.read_text(encoding="ascii").split()[at]
    except (OSError, ValueError, IndexError):
        return None
    return int(word) if word.isdigit() and int(word) > 0 else None
