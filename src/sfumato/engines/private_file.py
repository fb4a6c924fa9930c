"""Files that only their owner may read, which appear whole or not at all."""

import os
from pathlib import Path

_SUFFIX = ".aside"


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the path, make it durable, then rename: a reader sees the old file or the new one."""
    aside = path.with_name(path.name + _SUFFIX)
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def publish(built: Path, path: Path) -> None:
    """Move a finished file to its place: readable by its owner only, on the disk before it has its name."""
    built.chmod(0o600)
    descriptor = os.open(built, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    built.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
