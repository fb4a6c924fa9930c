"""Deterministic sources for tests. They live here, so that production code cannot reach them by any parameter."""

import hashlib


class HashSource:
    """A reproducible stream: SHAKE-256 of a seed, read front to back."""

    name = "test-hash"

    def __init__(self, seed: object) -> None:
        self._seed = repr(seed).encode()
        self._block = 0
        self._left = b""

    def read(self, count: int) -> bytes:
        while len(self._left) < count:
            size = max(1 << 16, count)
            self._left += hashlib.shake_256(self._seed + b"/%d" % self._block).digest(size)
            self._block += 1
        taken, self._left = self._left[:count], self._left[count:]
        return taken


class ScriptedSource:
    """Exactly these bytes, then `after` for ever; without `after` the source dies when the script ends."""

    name = "test-script"

    def __init__(self, script: bytes, after: bytes | None = None) -> None:
        self._script = script
        self._after = after
        self.given = 0

    def read(self, count: int) -> bytes:
        taken, self._script = self._script[:count], self._script[count:]
        missing = count - len(taken)
        if missing:
            if self._after is None:
                raise SourceDied
            taken += (self._after * (missing // len(self._after) + 1))[:missing]
        self.given += count
        return taken


class SourceDied(Exception):  # noqa: N818
    """The script ended."""
