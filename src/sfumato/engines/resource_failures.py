"""Failures for lack of memory or disk: told apart inside, and for the owner who takes a snapshot.

To all others they are the same words as every failure: how much a question needs depends on the data.
"""

from errno import EDQUOT, ENOSPC

from sfumato.engines.engine import Limits
from sfumato.errors import EngineFailed

MEMORY = "memory"
DISK = "disk"
_DISK_WORDS = ("no space left on device", "disk quota exceeded", "max_temp_directory_size")


def failure_of(error: BaseException, is_memory: bool) -> EngineFailed:
    """Return the failure that an engine's error stands for; its words are looked at and never repeated."""
    failure, words = EngineFailed(), str(error).lower()
    if (isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT)) or any(word in words for word in _DISK_WORDS):
        failure.cause = DISK
    elif is_memory:
        failure.cause = MEMORY
    return failure


def explain_to_owner(failure: EngineFailed, limits: Limits) -> EngineFailed:
    """Return the failure of a snapshot with its cause and what to set, for the data owner."""
    threads = f" and {limits.threads} threads" if limits.threads else ""
    if failure.cause == MEMORY:
        return EngineFailed(
            "The snapshot needs more memory than the engine may use.",
            f"The engine may use {limits.memory} of memory{threads}, and writes to disk what does not fit.",
            'Set a larger memory in [engine] of the policy, for example memory = "8GB", or fewer threads.',
        )
    if failure.cause == DISK:
        return EngineFailed(
            "The disk has no space left for the snapshot.",
            "The bounded copy lies beside the ledger, and so does what does not fit into memory while it is written: "
            "together up to three times the size of the source without compression.",
            "Free space on that disk, or set temp in [engine] of the policy to a folder on a larger one.",
        )
    return failure
