"""The two things that can be wrong with a ledger, each said in one way: no path, no word of the operating system."""

from collections.abc import Iterator
from contextlib import contextmanager

from sfumato.errors import LedgerDamaged, LedgerUnavailable, Refusal

RESTORE_ANCHOR = (
    "Restore the file that ends in .anchor, or write into it the sequence and the head of the last receipt, and a dash."
)


def damaged(why: str, remedy: str = "") -> LedgerDamaged:
    """Say that the ledger is not what was written."""
    return LedgerDamaged(
        "The ledger is damaged.",
        why,
        remedy
        or "Nothing was released. Restore the ledger and its anchor from a backup that is as new as the last receipt.",
    )


def unavailable(why: str, remedy: str = "") -> LedgerUnavailable:
    """Say that the ledger could not be used now."""
    return LedgerUnavailable(
        "The ledger cannot be used now.",
        why,
        remedy or "Nothing was released. Check disk, rights and server, and ask again.",
    )


def failed() -> LedgerUnavailable:
    """Say that the ledger failed, without the words of what failed."""
    return unavailable("Reading or writing it failed. The error message is not shown.")


@contextmanager
def failing_closed() -> Iterator[None]:
    """Let nothing but a Refusal leave the ledger: a server that repeats it to an analyst repeats no other words."""
    try:
        yield
        return
    except Refusal:
        raise
    except Exception:
        failure = failed()
    raise failure
