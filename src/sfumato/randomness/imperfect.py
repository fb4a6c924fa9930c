"""Sources that say how far they may be from fair: declared by their owner, combined, or good for one release.

Theorem: the XOR of independent sources with biases g1, …, gn has bias g1 · … · gn.  Proof: proofs/consistent.md
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import prod

import numpy as np

from sfumato.errors import BadParameter, EntropyFailed, quote_value
from sfumato.randomness.source import Source, as_gamma, as_source, declared_gamma, read_declared


class Declared:
    """The owner's statement about another source: each of its bits is biased by at most `gamma`, given all before."""

    __slots__ = ("_source", "gamma", "name")

    def __init__(self, source: Source, gamma: object, name: str) -> None:
        self._source = as_source(source)
        self.gamma = as_gamma(gamma)
        self.name = _checked_name(name)
        if declared_gamma(source) > self.gamma:
            raise BadParameter(
                f"gamma = {quote_value(self.gamma)} is less than the source {source.name} declares itself.",
                "A statement about a source cannot make it better than it says it is.",
                f"Declare at least {quote_value(declared_gamma(source))}, or combine it with another source.",
            )

    def read(self, count: int) -> bytes:
        return read_declared(self._source, count)


class Combined:
    """XOR of independent sources; its bias is at most the product of their biases."""

    __slots__ = ("_sources", "gamma", "name")

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(map(as_source, sources)) if isinstance(sources, Iterable) else ()
        if len(self._sources) < 2 or len({id(source) for source in self._sources}) < len(self._sources):
            raise BadParameter(
                "These are not two or more different sources.",
                "The XOR of a source with itself is zero; only independent sources improve each other.",
                "Give a list of at least two sources that do not depend on each other.",
            )
        self.gamma = prod((declared_gamma(source) for source in self._sources), start=Fraction(1))
        self.name = " xor ".join(source.name for source in self._sources)

    def read(self, count: int) -> bytes:
        drawn = [np.frombuffer(read_declared(source, count), dtype=np.uint8) for source in self._sources]
        return bytes(np.bitwise_xor.reduce(drawn))


class SingleUse:
    """Another source, for one release: closed after it, and then no bit of it is given out again.

    On biased bits two answers cost more than the sum of what each costs alone: each needs a source of its own.
    """

    __slots__ = ("_closed", "_source")

    def __init__(self, source: Source) -> None:
        self._source = as_source(source)
        self._closed = False

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def gamma(self) -> Fraction:
        return declared_gamma(self._source)

    def read(self, count: int) -> bytes:
        if self._closed:
            raise EntropyFailed(
                f"The random source {self.name} has served its one release.",
                "Later bits of an imperfect source may depend on earlier ones, so two answers from it do not compose.",
                "Nothing was released. Use another source that is independent of this one.",
            )
        return read_declared(self._source, count)

    def close(self) -> None:
        """Give out no further bit. Closing twice is fine."""
        self._closed = True

    def __enter__(self) -> "SingleUse":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked_name(name: object) -> str:
    if isinstance(name, str) and name.strip() and name.isprintable():
        return name
    raise BadParameter(
        f"name = {quote_value(name)} names no source.",
        "Receipts say which source was used.",
        "Give a short printable text.",
    )
