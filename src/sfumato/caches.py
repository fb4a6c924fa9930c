"""Caches that are limited in bytes: values by owner, and numbers that functions have computed."""

import functools
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial, update_wrapper
from itertools import chain
from sys import getsizeof
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")
MAX_NUMBER_BYTES = 1 << 24
"""Bytes of all numbers together that `remembered` functions keep in one process, about."""
_ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes))
_ABSENT = object()
_OVERHEAD_BYTES = 400
"""Bytes that a cache itself needs for one entry, about."""


@dataclass(frozen=True, slots=True)
class _Entry:
    value: Any
    size: int
    owner: Hashable


class SizedCache:
    """Values by their keys, thread-safe. The values of one owner, and all of them, have at most so many bytes.

    What was not used for the longest time is forgotten first: of an owner who has too much, or else of anyone.
    """

    def __init__(self, max_bytes: int, max_owner_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._max_owner_bytes = max_owner_bytes
        self.renew()

    def renew(self) -> None:
        """Begin empty, in a process that was forked: another thread may have held the lock."""
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._owned: dict[Hashable, OrderedDict[Hashable, None]] = {}
        self._bytes: dict[Hashable, int] = {}
        self._gone: deque[Hashable] = deque()

    @property
    def bytes(self) -> int:
        """The accounted bytes of everything that is held."""
        return sum(self._bytes.values())

    def bytes_of(self, owner: Hashable) -> int:
        """Return the accounted bytes of what an owner holds."""
        return self._bytes.get(owner, 0)

    def get(self, key: Hashable) -> Any:
        """Return a value, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            self._owned[entry.owner].move_to_end(key)
            return entry.value

    def put(
        self,
        key: Hashable,
        value: object,
        owner: Hashable = None,
        *,
        counted: Iterable[object] = (),
        counted_bytes: int = 0,
    ) -> None:
        """Hold a value for an owner; one that is too large by itself is not held.

        `counted` are parts of it whose bytes are known already: `counted_bytes`, which are added.
        """
        size = _OVERHEAD_BYTES + counted_bytes + size_of((key, value), counted)
        with self._lock:
            while self._gone:
                self._drop_all(self._gone.popleft())
            self._drop(key)
            if size > min(self._max_owner_bytes, self._max_bytes):
                return
            while self._bytes.get(owner, 0) + size > self._max_owner_bytes:
                self._drop(next(iter(self._owned[owner])))
            while sum(self._bytes.values()) + size > self._max_bytes:
                self._drop(next(iter(self._entries)))
            self._entries[key] = _Entry(value, size, owner)
            self._owned.setdefault(owner, OrderedDict())[key] = None
            self._bytes[owner] = self._bytes.get(owner, 0) + size

    def forget(self, owner: Hashable) -> None:
        """Drop everything that an owner holds."""
        with self._lock:
            self._drop_all(owner)

    def forget_later(self, owner: Hashable) -> None:
        """Drop everything that an owner holds when the next value is put: a finalizer may run at any moment."""
        self._gone.append(owner)

    def _drop_all(self, owner: Hashable) -> None:
        for key in list(self._owned.get(owner, ())):
            self._drop(key)

    def _drop(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        del self._owned[entry.owner][key]
        self._bytes[entry.owner] -= entry.size
        if not self._owned[entry.owner]:
            del self._owned[entry.owner], self._bytes[entry.owner]


class _Remembered:
    """The caches of all `remembered` functions, and the bytes that were put into them since they began anew."""

    def __init__(self) -> None:
        self.caches: list[functools._lru_cache_wrapper[Any]] = []
        self.bytes = 0

    def count(self, size: int) -> None:
        """Count one more result. Threads may lose a few bytes of each other's: the limit is approximate."""
        self.bytes += size
        if self.bytes > MAX_NUMBER_BYTES:
            self.bytes = 0
            for cache in self.caches:
                cache.cache_clear()


_REMEMBERED = _Remembered()


def remembered(most: int) -> Callable[[Callable[..., T]], "functools._lru_cache_wrapper[T]"]:
    """Remember the last results of a function of numbers, at most so many, and with all such functions so many bytes.

    A hit costs what one of `lru_cache` costs. Results are counted when they are computed. Beyond MAX_NUMBER_BYTES all
    these functions forget everything and compute anew: what they return never depends on it.

    >>> @remembered(2)
    ... def square(number: int) -> int:
    ...     return number * number
    >>> square(3), square(3), square.cache_info().hits
    (9, 9, 1)
    """

    def decorate(function: Callable[..., T]) -> "functools._lru_cache_wrapper[T]":
        def counted(*arguments: Any, **named: Any) -> T:
            result = function(*arguments, **named)
            _REMEMBERED.count(_OVERHEAD_BYTES + size_of((arguments, named, result)))
            return result

        cache = lru_cache(maxsize=most)(update_wrapper(counted, function))
        _REMEMBERED.caches.append(cache)
        return cache

    return decorate


def size_of(thing: object, counted: Iterable[object] = ()) -> int:
    """Return the bytes of a value and of everything in it: containers and records, each object once.

    What a record shares with others is counted with each of them, so that it is rather too much. Parts that are
    `counted` elsewhere are left out, with what is in them and nowhere else.
    """
    total, seen, waiting = 0, set(map(id, counted)), [thing]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        kind: Any = type(part)
        parts = _parts_of(kind)
        if parts is None:
            continue
        total += getsizeof(part)
        waiting.extend(parts(part))
    return total


@lru_cache(maxsize=1024)
def _parts_of(kind: Any) -> Callable[[Any], Iterable[object]] | None:
    """Return how the parts of a value of this type are found; None where it is shared by the whole process."""
    if kind in _ATOMS:
        return lambda _: ()
    if issubclass(kind, type | Enum):
        return None
    if issubclass(kind, tuple | list | set | frozenset):
        return lambda part: part
    if issubclass(kind, Mapping):
        return lambda part: chain(part.keys(), part.values())
    return partial(_fields, _slots(kind))


def _fields(slots: tuple[str, ...], record: object) -> list[object]:
    held = [getattr(record, name, _ABSENT) for name in slots]
    return [*getattr(record, "__dict__", {}).values(), *(value for value in held if value is not _ABSENT)]


def _slots(kind: Any) -> tuple[str, ...]:
    """Return the names of a record's slots, its parents' included."""
    found: list[str] = []
    for parent in kind.__mro__:
        slots = parent.__dict__.get("__slots__", ())
        found += (slots,) if isinstance(slots, str) else slots
    return tuple(name for name in found if not name.startswith("__"))
