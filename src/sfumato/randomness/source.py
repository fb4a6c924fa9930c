"""The source of random bits: an AES-256-CTR keystream keyed by the operating system.

There is no seed: a sequence that can be repeated is noise that can be subtracted. Each thread has a generator of its
own, and the old key is erased at every refill ("fast key erasure", Bernstein 2017), so that a later theft of the state
does not reveal noise already drawn. After a fork the child starts from fresh entropy.
"""

import os
import threading
import time
from fractions import Fraction
from functools import cache
from importlib import import_module
from typing import Any, NoReturn, Protocol

from sfumato.errors import BadParameter, EntropyFailed, ImperfectSource, quote_value
from sfumato.exact import integer, rational

_KEY_BYTES = 32
_STATE_BYTES = _KEY_BYTES + 16  # key, then the counter block
_BUFFER_BYTES = 1 << 16
_BULK_BYTES = 1 << 13  # more than this at once is streamed straight into the result
_SLACK_BYTES = 15  # update_into wants room for one block more
_REFILLS_PER_SEED = 1 << 20
_MAX_SAMPLES = 1 << 40
_FAIR_BIAS = Fraction(0)
_SECONDS_PER_SEED = 600.0  # limits what a copied virtual machine shares with its twin


class Source(Protocol):
    """A stream of independent uniform bits; one that is less than that says so by an attribute `gamma`."""

    @property
    def name(self) -> str:
        """The name of this source in a receipt."""

    def read(self, count: int) -> bytes:
        """Return exactly `count` independent uniform bytes, or raise."""


class Metered:
    """Another source, with a count of the bits drawn through it: what a receipt states as entropy used."""

    __slots__ = ("_source", "bits")

    def __init__(self, source: Source) -> None:
        self._source = as_source(source)
        self.bits = 0

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def gamma(self) -> Fraction:
        return declared_gamma(self._source)

    def read(self, count: int) -> bytes:
        drawn = self._source.read(count)
        self.bits += 8 * count
        return drawn


def system_source() -> Source:
    """Return the production source. It has no parameters: there is no seed."""
    return _SYSTEM


def sample_size(count: object) -> int:
    """Read how many are to be drawn; more than any memory holds is refused before anything is drawn."""
    size = integer(count, "count", 0)
    if size <= _MAX_SAMPLES:
        return size
    raise BadParameter(
        f"count = {quote_value(size)} is more than {_MAX_SAMPLES}.",
        "This many samples do not fit into memory.",
        "Draw them in parts.",
    )


def as_source(source: object) -> Source:
    """Return what can be read from, or refuse it."""
    if callable(getattr(source, "read", None)):
        return source  # type: ignore[return-value]
    raise BadParameter(
        f"A Python {type(source).__name__} is not a source of random bits.",
        "A source has a name, and read(count) returns that number of bytes.",
        "Give sfumato.randomness.source.system_source().",
    )


def octets(data: object, name: str) -> bytes:
    """Return data that is bytes, or refuse it."""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise BadParameter(f"{name} is not bytes.", "Random bits are given in bytes.", f"Give {name} as bytes.")


def declared_gamma(source: object) -> Fraction:
    """Return the declared bias of a source's bits; 0 if it declares none.

    Given all bits before it, each bit is 0 with a probability in [(1 - gamma) / 2, (1 + gamma) / 2]  [SV86].
    """
    return as_gamma(getattr(source, "gamma", 0))


def as_gamma(value: object) -> Fraction:
    """Read a bias: an exact number from 0 (fair) to 1 (whatever an opponent likes)."""
    if value is _FAIR_BIAS or (type(value) is int and value == 0):  # what nearly every source says, at every read
        return _FAIR_BIAS
    gamma = rational(value, "gamma")
    if 0 <= gamma <= 1:
        return gamma
    raise BadParameter(
        f"gamma = {quote_value(gamma)} is not between 0 and 1.",
        "Each bit is 0 with a probability between (1 - gamma) / 2 and (1 + gamma) / 2.",
        "Give 0 for a fair source, 1 for one of which nothing is known, or a fraction between them.",
    )


def read_exactly(source: Source, count: int) -> bytes:
    """Return `count` fair bytes of a source, or refuse: a declared bias, or a short read with its bits left at zero."""
    gamma = declared_gamma(source)
    if gamma:
        raise ImperfectSource(
            f"The random source {source.name} is declared with gamma = {quote_value(gamma)}: its bits may be biased.",
            "Noise that is added to an answer is private only with fair bits; with biased ones its loss is at least "
            "ln((1 + gamma) / (1 - gamma)), however large it is.",
            "Nothing was released. Use the operating system's source; or make fair bits of this one with a secret "
            "seed (sfumato.randomness.extractor); or release one number by sfumato.mechanisms.consistent.",
        )
    return read_declared(source, count)


def read_declared(source: Source, count: int) -> bytes:
    """Return `count` bytes of a source, however fair it says it is; for what was proved for its gamma only."""
    drawn = as_source(source).read(count)
    if isinstance(drawn, bytes) and len(drawn) == count:
        return drawn
    raise EntropyFailed(
        f"The random source {source.name} did not give the {count} bytes that were asked for.",
        "Missing random bits cannot be replaced.",
        "Nothing was released. Let the source's read(count) return exactly count bytes, or raise.",
    )


def broken_source() -> EntropyFailed:
    """Return the refusal for bits whose probability is below e^-16384: no working source gives them."""
    return EntropyFailed(
        "The random source gave bits that no working source gives.",
        "Their probability is below e^-16384.",
        "Nothing was released. Check the source of random bits of this machine.",
    )


class _Keystream:
    """One thread's generator: 48 secret bytes and a buffer of output not yet given out."""

    __slots__ = ("_buffer", "_left", "_owner", "_refills", "_seeded", "_state")

    def __init__(self) -> None:
        self._state = _entropy()
        self._buffer = bytearray(_BUFFER_BYTES + _SLACK_BYTES)
        self._left = 0
        self._refills = 0
        self._seeded = time.monotonic()
        self._owner = os.getpid()

    @property
    def foreign(self) -> bool:
        """Whether this state was inherited from another process (C code may fork without Python's hooks)."""
        return self._owner != os.getpid()

    def take(self, count: int) -> bytes:
        if count > _BULK_BYTES:
            return _keystream(self.take(_STATE_BYTES), count)
        if count > self._left or self._stale:
            self._refill()
        start = _BUFFER_BYTES - self._left
        taken = bytes(memoryview(self._buffer)[start : start + count])
        self._buffer[start : start + count] = bytes(count)  # bytes handed out are not kept
        self._left -= count
        return taken

    @property
    def _stale(self) -> bool:
        # asked at every read: a quiet service would keep one buffer for hours, and a copied machine the same buffer
        return time.monotonic() - self._seeded > _SECONDS_PER_SEED

    def _refill(self) -> None:
        self._left = 0  # if anything below fails, nothing old can be handed out
        if self._refills >= _REFILLS_PER_SEED or self._stale:
            self._state = bytes(a ^ b for a, b in zip(self._state, _entropy(), strict=True))
            self._refills = 0
            self._seeded = time.monotonic()
        _encryptor(self._state).update_into(bytes(_BUFFER_BYTES), self._buffer)
        self._state = bytes(memoryview(self._buffer)[:_STATE_BYTES])
        self._buffer[:_STATE_BYTES] = bytes(_STATE_BYTES)
        self._left = _BUFFER_BYTES - _STATE_BYTES
        self._refills += 1


class _SystemSource:
    """The production source: one keystream per thread, none shared, none copied."""

    __slots__ = ("_local",)
    name = "os-aes-256-ctr"

    def __init__(self) -> None:
        self._local = threading.local()

    def read(self, count: int) -> bytes:
        size = sample_size(count)
        # taken out while in use: a signal handler or finaliser that reads meanwhile starts a keystream of its own
        keystream: _Keystream | None = self._local.__dict__.pop("keystream", None)
        if keystream is None or keystream.foreign:
            keystream = _Keystream()
        taken = keystream.take(size)
        self._local.keystream = keystream
        return taken

    def forget(self) -> None:
        """Drop this thread's state; the next read starts from fresh entropy."""
        self._local.__dict__.clear()

    def __repr__(self) -> str:
        return f"<source {self.name}>"

    def _no_copy(self, *_: object) -> NoReturn:
        raise EntropyFailed(
            "The random source was asked for a copy of itself.",
            "Two copies of one state would give two people the same noise.",
            "Call system_source() where it is needed.",
        )

    __reduce__ = __copy__ = __deepcopy__ = _no_copy


def _encryptor(state: bytes) -> "_Encryptor":
    cipher = _ciphers()
    encryptor: _Encryptor = cipher.Cipher(
        cipher.algorithms.AES256(state[:_KEY_BYTES]), cipher.modes.CTR(state[_KEY_BYTES:])
    ).encryptor()
    return encryptor


@cache
def _ciphers() -> Any:
    """Load the cipher when the first bits are wanted: its library draws random bits itself while it is loaded.

    If it gets none it panics instead of raising an `Exception`.
    """
    try:
        return import_module("cryptography.hazmat.primitives.ciphers")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: S110 - a panic is no Exception
        pass
    raise EntropyFailed(
        "The generator of random bits could not be started.",
        "Its cipher could not be loaded: while it is, it needs random bits from the operating system.",
        "Nothing was released. Check that getrandom() works in this container, and start the program again.",
    )


class _Encryptor(Protocol):
    def update(self, data: bytes) -> bytes: ...
    def update_into(self, data: bytes, buf: bytearray) -> int: ...


def _keystream(state: bytes, count: int) -> bytes:
    return _encryptor(state).update(bytes(count))


def _entropy() -> bytes:
    try:
        seed = os.urandom(_STATE_BYTES)
    except (OSError, NotImplementedError):
        seed = b""
    if len(seed) == _STATE_BYTES and any(seed):
        return seed
    raise EntropyFailed(
        "The operating system gave no random bits.",
        "Without them no noise can be drawn, and no other generator takes their place.",
        "Nothing was released. Check that /dev/urandom or getrandom() works in this container, then ask again.",
    )


_SYSTEM = _SystemSource()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SYSTEM.forget)
