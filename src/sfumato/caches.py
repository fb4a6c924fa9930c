"""Caches that are limited in bytes, for each owner and in total."""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial
from itertools import chain
from operator import is_
from sys import getsizeof
from threading import Lock
from typing import Any

_ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes))
_ABSENT = object()
_OVERHEAD_BYTES = 400
"""Bytes that a cache itself needs for one entry, about."""


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
