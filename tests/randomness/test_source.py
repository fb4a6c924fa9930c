"""The source: no seed, no copies, no shared noise, no old bytes, and no noise at all where the entropy fails."""

import copy
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from fractions import Fraction

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from tests.sources import HashSource

from sfumato.errors import BadParameter, EntropyFailed
from sfumato.randomness import source as module
from sfumato.randomness.discrete_gaussian import DiscreteGaussian
from sfumato.randomness.discrete_laplace import DiscreteLaplace
from sfumato.randomness.source import Metered, _Keystream, _SystemSource, read_exactly, system_source


@pytest.fixture
def fresh() -> Iterator[_SystemSource]:
    """A system source without state, so that the next read asks the operating system."""
    source = system_source()
    assert isinstance(source, _SystemSource)
    source.forget()
    yield source
    source.forget()


def child_noise(_: int) -> bytes:
    return system_source().read(32)


def test_reads_have_the_length_asked_for_and_do_not_repeat() -> None:
    sizes = [0, 1, 48, 8192, 8193, 65_488, 65_489, 200_000]
    drawn = [system_source().read(size) for size in sizes for _ in range(2)]
    assert [len(part) for part in drawn] == [size for size in sizes for _ in range(2)]
    long = [part for part in drawn if len(part) >= 48]
    assert len({part[:48] for part in long}) == len(long)
    assert all(any(part[-48:]) for part in long)


@pytest.mark.parametrize("count", [-1, 1.0, "4", None, True])
def test_a_count_that_is_none_is_refused(count: object) -> None:
    with pytest.raises(BadParameter):
        system_source().read(count)  # type: ignore[arg-type]


def test_there_is_no_seed() -> None:
    with pytest.raises(TypeError):
        system_source(1)  # type: ignore[call-arg]


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_a_source_is_not_copied(copying: object) -> None:
    assert callable(copying)
    with pytest.raises(EntropyFailed):
        copying(system_source())


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_no_pickle_protocol_copies_a_source(protocol: int) -> None:
    with pytest.raises(EntropyFailed):
        pickle.dumps(system_source(), protocol=protocol)


def test_repr_shows_the_name_only() -> None:
    assert repr(system_source()) == "<source os-aes-256-ctr>"
    assert system_source().name == "os-aes-256-ctr"


def test_a_forked_child_shares_no_noise_with_its_parent_or_brother() -> None:
    system_source().read(100)  # the parent has a buffer that the children inherit
    heard = []
    for _ in range(2):
        receiving, sending = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(sending, system_source().read(32))
            os._exit(0)
        os.close(sending)
        os.waitpid(child, 0)
        heard.append(os.read(receiving, 64))
        os.close(receiving)
    heard.append(system_source().read(32))
    assert [len(part) for part in heard] == [32, 32, 32]
    assert len(set(heard)) == 3


def test_a_fork_pool_shares_no_noise() -> None:
    system_source().read(100)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        heard = [system_source().read(32), *pool.map(child_noise, range(64), chunksize=1), system_source().read(32)]
    assert len(set(heard)) == len(heard)


def test_a_state_from_another_process_is_never_used(fresh: _SystemSource, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh.read(100)
    inherited = fresh._local.keystream
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)  # C code forked: Python's hooks did not run
    fresh.read(16)
    assert fresh._local.keystream is not inherited


def test_eight_threads_have_no_words_in_common() -> None:
    words: list[bytes] = []
    keystreams: list[int] = []

    def collect() -> None:
        drawn = system_source().read(4096)
        words.extend(drawn[place : place + 16] for place in range(0, 4096, 16))
        keystreams.append(id(system_source()._local.keystream._buffer))  # type: ignore[attr-defined]
        barrier.wait()

    barrier = threading.Barrier(8)
    threads = [threading.Thread(target=collect) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(words)) == len(words) == 8 * 256
    assert len(set(keystreams)) == 8


def test_a_signal_handler_that_reads_meanwhile_shares_nothing(
    fresh: _SystemSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner: list[bytes] = []
    take = _Keystream.take

    def interrupted(keystream: _Keystream, count: int) -> bytes:
        if not inner:
            inner.append(b"")
            signal.raise_signal(signal.SIGUSR1)  # its handler runs in the midst of the outer read
        return take(keystream, count)

    before = signal.signal(signal.SIGUSR1, lambda *_: inner.append(fresh.read(32)))
    try:
        monkeypatch.setattr(_Keystream, "take", interrupted)
        outer = fresh.read(32)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(inner) == 2
    assert len({inner[1], outer, fresh.read(32)}) == 3


@pytest.mark.parametrize("failure", [OSError("no entropy"), NotImplementedError()], ids=["os", "missing"])
def test_no_entropy_means_no_noise(fresh: _SystemSource, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    def fail(_: int) -> bytes:
        raise failure

    monkeypatch.setattr(os, "urandom", fail)
    for law in (DiscreteLaplace(Fraction(10)), DiscreteGaussian(Fraction(10**6))):
        with pytest.raises(EntropyFailed):
            law.draw(5, fresh)
    monkeypatch.undo()
    assert len(fresh.read(5)) == 5  # and asking again works


class Panic(BaseException):
    """What a library written in Rust raises when it gives up: no Exception."""


@pytest.mark.parametrize("failure", [Panic(), ImportError()], ids=["panic", "missing"])
def test_a_cipher_that_cannot_be_loaded_is_a_refusal(
    fresh: _SystemSource, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def fail(_: str) -> object:
        raise failure

    module._ciphers.cache_clear()
    monkeypatch.setattr(module, "import_module", fail)
    with pytest.raises(EntropyFailed, match="could not be started"):
        fresh.read(1)
    monkeypatch.undo()
    assert len(fresh.read(5)) == 5  # and asking again works


@pytest.mark.parametrize("seed", [b"", b"short", bytes(48)], ids=["empty", "short", "zeros"])
def test_a_seed_that_no_generator_gives_is_refused(
    fresh: _SystemSource, monkeypatch: pytest.MonkeyPatch, seed: bytes
) -> None:
    monkeypatch.setattr(os, "urandom", lambda _: seed)
    with pytest.raises(EntropyFailed):
        fresh.read(1)


def test_what_was_handed_out_is_wiped_and_the_key_changes_at_every_refill() -> None:
    keystream = _Keystream()
    seeded = keystream._state
    first = keystream.take(100)
    assert keystream._state != seeded
    assert not any(keystream._buffer[: module._STATE_BYTES + 100])
    assert first not in bytes(keystream._buffer)
    assert keystream._state not in bytes(keystream._buffer)
    states = {seeded, keystream._state}
    for _ in range(20):
        keystream.take(8192)
        states.add(keystream._state)
    assert len(states) == 2 + 20 * 8192 // 65_488


def test_the_stream_is_aes_256_in_counter_mode_with_fast_key_erasure() -> None:
    keystream = _Keystream()
    state = keystream._state
    stream = Cipher(algorithms.AES256(state[:32]), modes.CTR(state[32:])).encryptor().update(bytes(65_536))
    assert keystream.take(1000) == stream[48:1048]
    bulk = Cipher(algorithms.AES256(stream[1048:1080]), modes.CTR(stream[1080:1096])).encryptor().update(bytes(9000))
    assert keystream.take(9000) == bulk
    assert keystream.take(8) == stream[1096:1104]
    assert keystream._state == stream[:48]


def test_the_state_is_reseeded_after_ten_minutes_and_after_a_million_refills(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    urandom = os.urandom

    def counted(count: int) -> bytes:
        asked.append(count)
        return urandom(count)

    monkeypatch.setattr(os, "urandom", counted)
    keystream = _Keystream()
    keystream.take(10)
    assert len(asked) == 1
    keystream._seeded -= module._SECONDS_PER_SEED + 1
    left = keystream._left
    keystream.take(10)  # though the buffer is nearly full: a copied machine holds the same one
    assert len(asked) == 2
    assert keystream._left == left
    keystream._refills = module._REFILLS_PER_SEED
    keystream.take(10)
    assert len(asked) == 2
    for _ in range(8):
        keystream.take(8192)
    assert len(asked) == 3
    assert keystream._refills == 1


def test_a_reseed_that_fails_gives_nothing(fresh: _SystemSource, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh.read(10)
    fresh._local.keystream._seeded -= module._SECONDS_PER_SEED + 1
    monkeypatch.setattr(os, "urandom", lambda _: b"")
    with pytest.raises(EntropyFailed):
        fresh.read(10)
    with pytest.raises(EntropyFailed):
        fresh.read(10)


def test_a_metered_source_counts_the_bits_and_changes_none() -> None:
    metered = Metered(HashSource(1))
    assert metered.read(10) + metered.read(3) == HashSource(1).read(13)
    assert metered.bits == 8 * 13
    assert metered.name == "test-hash"


def test_a_short_read_is_refused() -> None:
    class Short:
        name = "short"

        def read(self, count: int) -> bytes:
            return bytes(max(0, count - 1))

    with pytest.raises(EntropyFailed):
        read_exactly(Short(), 8)
    assert read_exactly(Short(), 0) == b""
