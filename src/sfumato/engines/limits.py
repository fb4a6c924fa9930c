"""Resources an engine may use on this machine: those of the policy, and otherwise those of the machine."""

from pathlib import Path

from sfumato.engines.engine import Limits
from sfumato.engines.machine import machine_memory, machine_threads
from sfumato.errors import BadSource
from sfumato.policy.policy import Policy

_BYTES_PER_THREAD = 128 << 20
"""With less memory for each, threads spend their time on writing to disk, and fail in the end."""
_UNCOUNTED_BYTES = 64 << 20
"""Memory for what an engine does not count: files that it reads, and this program itself."""


def limits_of(policy: Policy) -> Limits:
    """Return the limits of a policy's engine, within `engine.memory` together with what the engine does not count."""
    settings = policy.engine
    memory = settings.memory or machine_memory() // 2
    threads = settings.threads or max(min(machine_threads(), memory // _BYTES_PER_THREAD), 1)
    counted = memory - min(memory // 4, _UNCOUNTED_BYTES)
    if settings.temp is not None and not Path(settings.temp).is_dir():
        raise BadSource(
            "engine.temp is not a folder.",
            "It holds what does not fit into memory while a question or a snapshot is computed.",
            "Create the folder, or correct the path.",
        )
    return Limits(f"{counted >> 20}MiB", threads, None if settings.temp is None else Path(settings.temp))
