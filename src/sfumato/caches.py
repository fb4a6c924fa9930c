"""Caches that are limited in bytes: values by owner, and numbers that functions have computed."""

import functools
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, update_wrapper
from gc import get_referents
from itertools import count
from operator import is_
from sys import getsizeof
from threading import Lock
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeVar

T = TypeVar("T")
MAX_NUMBER_BYTES = 1 << 24
"""Bytes of all numbers together that `remembered` functions keep in one process, about."""
_type_of: Callable[[object], Any] = type
_OVERHEAD_BYTES = 400
"""Bytes that a cache itself needs for one entry, about."""
_MEASURED_EVERY = 8
"""One of this many results of a function is measured; those up to the next one are assumed to be as large."""


@dataclass(frozen=True, slots=True)
class _Entry:
    value: Any
    size: int
    owner: Hashable


class SameObjects:
    """A key that is equal to another one iff both hold the same objects, not only equal ones.

    It keeps them, so that no other object can have their places. Comparing takes no time, however large they are.

    >>> one = (1, 2)
    >>> SameObjects(one) == SameObjects(one), SameObjects(one) == SameObjects(tuple([1, 2]))
    (True, False)
    """

    __slots__ = ("_hash", "objects")

    def __init__(self, *objects: Any) -> None:
        self.objects = objects
        self._hash = hash(tuple(map(id, objects)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SameObjects)
            and len(self.objects) == len(other.objects)
            and all(map(is_, self.objects, other.objects))
        )


class SizedCache:
    """Values by their keys, thread-safe. The bytes of one owner's values are limited, and so are those of all values.

    The least recently used value is forgotten first: of an owner over the limit, or else of any owner.
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
        """Hold a value for an owner. A value that alone is too large is not held.

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


_CACHES = _Remembered()


def remembered(most: int) -> Callable[[Callable[..., T]], "functools._lru_cache_wrapper[T]"]:
    """Remember the last results of a function of numbers: at most `most`, and MAX_NUMBER_BYTES for all such functions.

    A hit costs what one of `lru_cache` costs. Results are counted when they are computed, by the first of every few.
    Beyond MAX_NUMBER_BYTES all these functions forget everything and compute anew: what they return never depends on
    it.

    >>> @remembered(2)
    ... def square(number: int) -> int:
    ...     return number * number
    >>> square(3), square(3), square.cache_info().hits
    (9, 9, 1)
    """

    def decorate(function: Callable[..., T]) -> "functools._lru_cache_wrapper[T]":
        numbers = count()

        def counted(*arguments: Any, **named: Any) -> T:
            result = function(*arguments, **named)
            if next(numbers) % _MEASURED_EVERY == 0:
                _CACHES.count(_MEASURED_EVERY * (_OVERHEAD_BYTES + size_of((arguments, named, result))))
            return result

        cache = lru_cache(maxsize=most)(update_wrapper(counted, function))
        _CACHES.caches.append(cache)
        return cache

    return decorate


def size_of(thing: object, counted: Iterable[object] = ()) -> int:
    """Return the bytes of a value and of everything in it: containers and records, each object once.

    Parts that records share are counted with each of them, so the result is rather too large. Parts that are
    `counted` elsewhere are left out, with what is in them and nowhere else.
    """
    total, seen, waiting = 0, set(map(id, counted)), [thing]
    while waiting:
        found = {id(part): part for part in waiting if not _is_shared(_type_of(part))}
        for known in seen.intersection(found):
            del found[known]
        seen.update(found)
        total += sum(map(getsizeof, found.values()))
        waiting = get_referents(*found.values())
    return total


@lru_cache(maxsize=4096)
def _is_shared(kind: Any) -> bool:
    """Whether values of a type are shared by the whole process: classes, enumerations, functions and modules."""
    return issubclass(kind, type | Enum | FunctionType | BuiltinFunctionType | ModuleType)
