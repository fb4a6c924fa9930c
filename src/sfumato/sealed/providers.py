"""Additive encryption behind one protocol: `Ashe` by default; Paillier and BFV as references for small tables.

The last two need no separate key per batch and are thousands of times slower: see docs/sealed.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from sfumato.errors import BadParameter
from sfumato.exact import integer
from sfumato.sealed.ashe import Ashe

MIN_KEY_BITS = 2048
_POLYNOMIAL_DEGREE = 8192
_PLAIN_MODULUS = 1099511922689
"""A prime below 2^41 that is 1 modulo twice the degree, as batches of BFV need."""


class Provider(Protocol):
    """A scheme in which sums of ciphertexts are ciphertexts of sums. A cell is encrypted once."""

    def encrypt(self, values: Iterable[int], cell: int) -> Sequence[Any]:
        """Return the ciphertexts of the rows of a cell."""

    def add(self, ciphertexts: Sequence[Any]) -> Any:
        """Return the ciphertext of the sum, as a store without the key computes it."""

    def decrypt_sum(self, total: Any, cell: int, rows: int) -> int:
        """Return the sum of the plaintexts of a cell with `rows` rows."""


@dataclass(frozen=True, slots=True, repr=False)
class AsheProvider:
    """`Ashe` as a provider."""

    ashe: Ashe

    def encrypt(self, values: Iterable[int], cell: int) -> Sequence[int]:
        """Return the ciphertexts of the rows of a cell."""
        return self.ashe.encrypt(values, cell)

    def add(self, ciphertexts: Sequence[int]) -> int:
        """Return the sum, which needs no key and no reduction."""
        return sum(ciphertexts)

    def decrypt_sum(self, total: int, cell: int, rows: int) -> int:
        """Return the sum of the plaintexts."""
        return self.ashe.decrypt(total, cell, rows)


class Paillier:
    """Paillier's scheme: a public key encrypts, products of ciphertexts are sums. It needs the extra `paillier`."""

    def __init__(self, bits: int = MIN_KEY_BITS) -> None:
        self._phe = _import_extra("phe.paillier", "Paillier", "paillier")
        self._public, self._private = self._phe.generate_paillier_keypair(n_length=integer(bits, "bits", MIN_KEY_BITS))

    def encrypt(self, values: Iterable[int], cell: int) -> Sequence[Any]:
        """Return the ciphertexts of the rows of a cell; cells need not differ, as every ciphertext is fresh."""
        integer(cell, "cell", 0)
        return [self._public.raw_encrypt(integer(value, "value", 0)) for value in values]

    def add(self, ciphertexts: Sequence[Any]) -> Any:
        """Return the ciphertext of the sum."""
        total = 1
        for ciphertext in ciphertexts:
            total = total * ciphertext % self._public.nsquare
        return total

    def decrypt_sum(self, total: Any, cell: int, rows: int) -> int:
        """Return the sum of the plaintexts."""
        integer(cell, "cell", 0)
        integer(rows, "rows", 0)
        return int(self._private.raw_decrypt(total))


class Bfv:
    """BFV on lattices, by TenSEAL: secure against quantum computers, sums below 2^40. It needs the extra `bfv`."""

    def __init__(self) -> None:
        self._tenseal = _import_extra("tenseal", "BFV", "bfv")
        scheme = self._tenseal.SCHEME_TYPE.BFV
        self._context = self._tenseal.context(
            scheme, poly_modulus_degree=_POLYNOMIAL_DEGREE, plain_modulus=_PLAIN_MODULUS
        )

    def encrypt(self, values: Iterable[int], cell: int) -> Sequence[Any]:
        """Return the ciphertexts of the rows of a cell."""
        integer(cell, "cell", 0)
        plain = [integer(value, "value", 0) for value in values]
        if sum(plain) > _PLAIN_MODULUS // 2:
            raise BadParameter(
                "The sum of a cell is too large.", "BFV here has room for 2^39.", "Use Ashe or Paillier."
            )
        return [self._tenseal.bfv_vector(self._context, [value]) for value in plain]

    def add(self, ciphertexts: Sequence[Any]) -> Any:
        """Return the ciphertext of the sum."""
        return sum(ciphertexts[1:], start=ciphertexts[0]) if ciphertexts else None

    def decrypt_sum(self, total: Any, cell: int, rows: int) -> int:
        """Return the sum of the plaintexts."""
        integer(cell, "cell", 0)
        integer(rows, "rows", 0)
        return 0 if total is None else int(total.decrypt()[0])


def _import_extra(module: str, scheme: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise BadParameter(
            f"{scheme} is not installed.",
            f"It comes with the extra `{extra}`, and is a reference for small tables.",
            f"Install it: pip install 'sfumato[{extra}]'. The default, Ashe, needs nothing.",
        ) from None
