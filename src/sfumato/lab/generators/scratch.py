"""Folders for made-up people, thrown away afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_MEMORY = Path("/dev/shm")  # noqa: S108  where there is one: made-up people need no disk


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder that is thrown away, in memory where that is possible."""
    place = str(_MEMORY) if _MEMORY.is_dir() else None
    with TemporaryDirectory(prefix="sfumato-audit-", dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
