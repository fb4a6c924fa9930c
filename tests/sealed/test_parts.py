"""Keys, additive encryption, padded sizes and shares of noise: each by itself, against its definition."""

import copy
import math
import os
import pickle
import stat
from collections import Counter
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp
from tests.sources import HashSource

from sfumato.accounting.event import Approximate, Neighbours, Pure
from sfumato.errors import BadParameter, WrongKey
from sfumato.sealed.ashe import PRIMES, Ashe
from sfumato.sealed.keys import Key, create_key, read_key
from sfumato.sealed.padding import Padding
from sfumato.sealed.shares import PolyaShare

KEY = HashSource("key").read(32)


def test_a_key_is_written_once_and_read_back_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "clinic.key"
    create_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_bytes()) == 32
    assert os.listdir(tmp_path) == ["clinic.key"]
    assert read_key(path).derive("a") == read_key(path).derive("a")
    before = path.read_bytes()
    with pytest.raises(BadParameter, match="exists"):
        create_key(path)
    assert path.read_bytes() == before
    path.chmod(0o640)
    with pytest.raises(WrongKey, match="others"):
        read_key(path)


@pytest.mark.parametrize("content", [b"", b"short", bytes(31), bytes(33)])
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "clinic.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(WrongKey):
        read_key(path)
    with pytest.raises(WrongKey):
        read_key(tmp_path / "missing.key")
    with pytest.raises(BadParameter):
        create_key(tmp_path / "no folder" / "clinic.key")


@pytest.mark.parametrize("path", [None, 1, "", ".", "a\0b"], ids=repr)
def test_what_is_no_name_of_a_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadParameter):
        create_key(path)
    with pytest.raises(WrongKey):
        read_key(path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("label", [None, 1, b"a", "\ud800"], ids=repr)
def test_a_label_that_is_no_text_is_refused(label: Any) -> None:
    with pytest.raises(BadParameter):
        Key(KEY).derive("a", label)


def test_a_key_that_is_not_bytes_is_refused() -> None:
    for secret in (None, 32, "k" * 32, b"short"):
        with pytest.raises(WrongKey):
            Key(secret)  # type: ignore[arg-type]


def test_a_cell_without_values_or_with_too_many_rows_is_refused() -> None:
    for attempt in (lambda: Ashe(KEY, PRIMES[0]).encrypt(None, 0), lambda: Ashe(KEY, PRIMES[0]).decrypt(1, 0, 1 << 64)):  # type: ignore[arg-type]
        with pytest.raises(BadParameter):
            attempt()


def test_a_key_gives_nothing_away() -> None:
    key = Key(KEY)
    assert KEY.hex() not in repr(key)
    assert str(KEY) not in str(key)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(BadParameter):
            copied(key)
    assert KEY.hex() not in repr(Ashe(KEY, PRIMES[0]))


@given(st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_labels_are_told_apart(one: list[str], other: list[str]) -> None:
    assert (Key(KEY).derive(*one) == Key(KEY).derive(*other)) == (one == other)


def test_labels_do_not_run_together() -> None:
    key = Key(KEY)
    assert len({key.derive("ab", "c"), key.derive("a", "bc"), key.derive("abc"), key.derive("abc", "")}) == 4
    assert len(key.derive("x")) == 32


def pad(key: bytes, cell: int, place: int, prime: int) -> int:
    """F(t, j) block by block, as the page defines it."""
    cipher = Cipher(algorithms.AES256(key), modes.ECB())  # noqa: S305
    cells = [cell] if prime == PRIMES[0] else [cell, cell | 1 << 63]
    blocks = [cipher.encryptor().update(t.to_bytes(8, "big") + place.to_bytes(8, "big")) for t in cells]
    return int.from_bytes(b"".join(blocks), "big") % prime


@pytest.mark.parametrize("prime", PRIMES)
def test_a_ciphertext_is_the_plaintext_between_two_pads(prime: int) -> None:
    values = [0, 1, 5, prime - 1, 2**60]
    found = Ashe(KEY, prime).encrypt(values, 9)
    expected = [
        (value + pad(KEY, 9, at, prime) - pad(KEY, 9, at - 1, prime)) % prime for at, value in enumerate(values, 1)
    ]
    assert list(found) == expected


@given(st.sampled_from(PRIMES), st.lists(st.integers(0, 2**60), max_size=20), st.integers(0, 2**40), st.integers(-3, 3))
def test_the_sum_of_a_cell_decrypts(prime: int, values: list[int], cell: int, wraps: int) -> None:
    ashe = Ashe(KEY, prime)
    total = sum(ashe.encrypt(values, cell)) + wraps * prime
    assert ashe.decrypt(total, cell, len(values)) == sum(values) % prime


def test_equal_rows_share_nothing() -> None:
    ashe = Ashe(KEY, PRIMES[0])
    rows = [
        *ashe.encrypt([7] * 1000, 1),
        *ashe.encrypt([7] * 1000, 2),
        *Ashe(bytes(32), PRIMES[0]).encrypt([7] * 1000, 1),
    ]
    assert len(set(rows)) == 3000


@pytest.mark.parametrize(
    ("key", "prime"), [(b"short", PRIMES[0]), (KEY, 2**61), (KEY, 2**31 - 1), ("x" * 32, PRIMES[0])]
)
def test_other_keys_and_primes_are_refused(key: bytes, prime: int) -> None:
    with pytest.raises(BadParameter):
        Ashe(key, prime)


def test_values_and_cells_that_do_not_fit_are_refused() -> None:
    ashe = Ashe(KEY, PRIMES[0])
    for values, cell in (([-1], 0), ([PRIMES[0]], 0), ([1], 1 << 63), ([1], -1), ([1.0], 0)):
        with pytest.raises(BadParameter):
            ashe.encrypt(values, cell)  # type: ignore[arg-type]


PRINTED = (("1/2", "1e-6", 1, 27), ("1/2", "1e-9", 1, 41), ("1", "1e-6", 5, 75), ("1/2", "1e-9", 20, 922))


@pytest.mark.parametrize(
    ("epsilon", "delta", "rows", "shift"),
    [(Fraction(e), Fraction(d), k, s) for e, d, k, s in PRINTED],
)
def test_shifts_are_the_printed_ones(epsilon: Fraction, delta: Fraction, rows: int, shift: int) -> None:
    padding = Padding(epsilon, delta, rows)
    assert padding.shift == shift
    assert padding.event == Approximate(Pure(Fraction(epsilon), Neighbours.ADD_REMOVE), Fraction(delta))


def sizes(padding: Padding, true: int, most: int) -> npt.NDArray[np.float64]:
    """The law of a padded size, up to `most`; what is above goes into the last."""
    x = math.exp(-float(padding.epsilon) / padding.moved_rows)
    law, shift = np.zeros(most + 1), padding.shift
    for noise in range(-most, most + 1):
        dummies = max(0, shift + noise)
        law[min(most, true + dummies)] += (1 - x) / (1 + x) * x ** abs(noise)
    return law


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize(("epsilon", "delta"), [(Fraction(1), Fraction(1, 50)), (Fraction(2), Fraction(1, 10))])
def test_sizes_of_all_neighbours_are_as_private_as_stated(rows: int, epsilon: Fraction, delta: Fraction) -> None:
    """Two cells, every way in which a person can have at most k rows there: the divergence, both ways."""
    padding = Padding(epsilon, delta, rows)
    most = 60 + padding.shift
    worst = 0.0
    for extra in product(range(rows + 1), repeat=2):
        if not 0 < sum(extra) <= rows:
            continue
        plain = np.outer(sizes(padding, 0, most), sizes(padding, 0, most))
        more = np.outer(sizes(padding, extra[0], most), sizes(padding, extra[1], most))
        for one, other in ((plain, more), (more, plain)):
            worst = max(worst, float(np.maximum(0, one - math.exp(epsilon) * other).sum()))
    assert 0 < worst <= float(delta) + 1e-9


def test_replacing_counts_twice() -> None:
    padding = Padding(Fraction(1), Fraction(1, 50), 1, Neighbours.REPLACE)
    assert padding.shift == Padding(Fraction(1), Fraction(1, 50), 2).shift
    assert padding.event.neighbours is Neighbours.REPLACE


def test_dummies_are_never_negative_and_centre_on_the_shift() -> None:
    padding = Padding(Fraction(1, 2), Fraction("1e-6"), 1)
    drawn = padding.draw(10_000, HashSource("sizes"))
    assert drawn.min() >= 0
    # standard deviation 2.8 / 100: ten of them
    assert abs(float(np.mean(drawn)) - padding.shift) < 0.3


def test_shares_have_the_printed_law() -> None:
    """50,000 shares: each frequency errs by 0.014 with probability below 1e-8 (Hoeffding 2·exp(-2·n·t²))."""
    drawn = PolyaShare(Fraction(2), 2).draw(50_000, HashSource("shares"))
    counts = Counter(drawn.tolist())
    assert abs(counts[0] / 50_000 - 0.439830397426) < 0.014
    assert abs(counts[1] / 50_000 - 0.141012020155) < 0.014
    assert abs(counts[-1] / 50_000 - 0.141012020155) < 0.014


def test_a_single_share_protects_less_than_the_whole_noise() -> None:
    """The printed loss of one share of two at scale 2, where both together cost 1/2."""
    assert math.log(0.439830397426 / 0.141012020155) == pytest.approx(1.1375441, abs=1e-7)
    x, law = math.exp(-1 / 2), []
    for difference in range(40):
        terms = (
            math.exp(
                math.lgamma(k + 0.5)
                + math.lgamma(k + difference + 0.5)
                - math.lgamma(k + 1)
                - math.lgamma(k + difference + 1)
            )
            * x ** (2 * k + difference)
            for k in range(200)
        )
        law.append((1 - x) / math.pi * sum(terms))
    losses = [math.log(one / other) for one, other in pairwise(law)]
    assert max(losses) == pytest.approx(1.1375441, abs=1e-7)


@pytest.mark.parametrize("threshold", [1, 2, 3])
def test_so_many_shares_sum_to_laplace_noise(threshold: int) -> None:
    """The law of the sum, by convolving the exact law of a share: equal to the Laplace law to 12 digits."""
    scale, reach = Fraction(2), 70
    with mp.workdps(40):
        x = mp.exp(-1 / mp.mpf(2))
        size = mp.mpf(1) / threshold
        negative = [
            mp.gamma(k + size) / mp.gamma(size) / mp.factorial(k) * x**k * (1 - x) ** size for k in range(reach)
        ]
        share = np.convolve(np.array(negative), np.array(negative)[::-1])
        total = share
        for _ in range(threshold - 1):
            total = np.convolve(total, share)
        middle = len(total) // 2
        for z in range(8):
            assert abs(total[middle + z] - (1 - x) / (1 + x) * x**z) < mp.mpf(10) ** -12
    assert PolyaShare(scale, threshold).draw(5, HashSource(1)).shape == (5,)


@pytest.mark.parametrize(("scale", "threshold"), [(0, 1), (1, 0), (1.5, 1), (1, 1.5)])
def test_shares_refuse_what_means_nothing(scale: Fraction, threshold: int) -> None:
    with pytest.raises(BadParameter):
        PolyaShare(scale, threshold)
