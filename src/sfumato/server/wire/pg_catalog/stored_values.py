"""Values as SQLite holds them: long texts, arrays and exact numbers stay here, and SQLite holds a name of each."""

from datetime import date, datetime
from typing import Any

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.calls import is_short

_MOMENTS = frozenset({oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ})
_PREFIX_BYTES = 40


class StoredValues:
    """The values of one execution that are too long for SQLite, or that it has no type for.

    Equal values have equal names, so that SQLite compares names. A name begins like its text, which puts texts in order
    by their first 40 bytes.
    """

    def __init__(self, shared: "StoredValues | None" = None) -> None:
        self._shared = shared
        self._names: dict[Any, str] = {}
        self._values: dict[str, Any] = {}

    def encode(self, value: Any) -> Any:
        """Return a value as SQLite holds it."""
        if isinstance(value, bool):
            return int(value)
        if is_short(value):
            return value
        if isinstance(value, date):
            return value.isoformat() if not isinstance(value, datetime) else value.isoformat(sep=" ")
        key = (type(value), _hashable(value))
        name = self._shared._names.get(key) if self._shared is not None else None
        return name or self._names.get(key) or self._name_value(key, value)

    def decode(self, value: Any, oid: int) -> Any:
        """Return a value of a type as Python has it."""
        if isinstance(value, str):
            if "\0" in value:
                return self._find(value)
            if oid in _MOMENTS:
                return date.fromisoformat(value) if oid == oids.DATE else datetime.fromisoformat(value)
            return value
        return bool(value) if oid == oids.BOOL and value is not None else value

    def _find(self, name: str) -> Any:
        if self._shared is not None and name in self._shared._values:
            return self._shared._values[name]
        return self._values[name]

    def _name_value(self, key: Any, value: Any) -> str:
        prefix = (
            value[:_PREFIX_BYTES].encode()[:_PREFIX_BYTES].decode(errors="ignore") if isinstance(value, str) else ""
        )
        own = "" if self._shared is None else "+"
        name = f"{prefix}\0{own}{len(self._values)}"
        self._names[key], self._values[name] = name, value
        return name


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value
