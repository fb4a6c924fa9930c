"""Random ids that are unguessable and unique."""

from sfumato.randomness.source import Source, read_exactly

_ID_BYTES = 16


def fresh_id(source: Source) -> str:
    """Return a new random id: 128 bits in hexadecimal."""
    return read_exactly(source, _ID_BYTES).hex()
