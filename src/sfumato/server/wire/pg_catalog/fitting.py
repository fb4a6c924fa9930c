"""Types of expressions: texts in quotes and parameters get the type of their neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfumato.server.wire import oids
from sfumato.server.wire.pg_catalog.calls import Calls
from sfumato.server.wire.pg_catalog.casting import INTEGERS, NAMED_OID_TYPES, TEXTS, cast_value
from sfumato.server.wire.pg_catalog.compiled import Compiled, InferredTypes
from sfumato.server.wire.pg_catalog.relations import VirtualCatalog

_UNBOUNDED_TEXTS = frozenset({oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Fitting:
    """Fits the parts of expressions to each other, and learns the types of parameters."""

    shadow: VirtualCatalog
    learned: InferredTypes
    calls: Calls

    def alike(self, parts: Sequence[Compiled], default: int = oids.TEXT) -> list[Compiled]:
        """Return the parts with one type for those whose type is open: that of the first that has one."""
        telling = next((part.oid for part in parts if part.oid != oids.UNKNOWN), default)
        if telling in (oids.INT2, oids.INT4) and any(part.oid == oids.INT8 for part in parts):
            telling = oids.INT8
        fitted = [self.fit(part, telling) if part.oid == oids.UNKNOWN else part for part in parts]
        if telling in NAMED_OID_TYPES or any(part.oid in NAMED_OID_TYPES for part in fitted):
            fitted = [
                self.cast(part, telling) if part.oid in TEXTS and telling in NAMED_OID_TYPES else part
                for part in fitted
            ]
        return fitted

    def fit(self, part: Compiled, oid: int) -> Compiled:
        """Return a part whose type is open as `oid`, and others of names as they read."""
        if part.parameter is not None:
            self.learned.types[part.parameter] = oid
            return replace(part, oid=oid, parameter=None)
        if part.literal is not None:
            return self.cast(part, oid)
        if part.oid in NAMED_OID_TYPES and oid == oids.TEXT:
            return self.cast(part, oid)
        return replace(part, oid=oid) if part.oid == oids.UNKNOWN else part

    def settled(self, part: Compiled) -> Compiled:
        """Return a part whose type is open as text."""
        return self.fit(part, oids.TEXT) if part.oid == oids.UNKNOWN else part

    def cast(self, part: Compiled, oid: int) -> Compiled:
        """Return a part as another type."""
        if part.parameter is not None:
            learned = oids.TEXT if oid in NAMED_OID_TYPES else oid
            self.learned.types[part.parameter] = learned
            part = replace(part, oid=learned, parameter=None)
        source, shadow = part.oid, self.shadow
        if source == oid:
            return part
        if source in NAMED_OID_TYPES and oid not in INTEGERS | NAMED_OID_TYPES:
            return self.calls.add(lambda _run, value: shadow.name(source, value), oid, [part], strict=True)
        if part.literal is not None and oid not in NAMED_OID_TYPES:
            return self.calls.constant(cast_value(part.literal, source, oid, shadow.number), oid)
        whole = INTEGERS | NAMED_OID_TYPES
        if (source in whole and oid in whole) or (source in TEXTS and oid in _UNBOUNDED_TEXTS):
            return replace(part, oid=oid, literal=None)
        return self.calls.add(lambda _run, value: cast_value(value, source, oid, shadow.number), oid, [part])
