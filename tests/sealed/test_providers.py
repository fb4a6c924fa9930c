"""Every scheme of additive encryption obeys the same law, and one that is not installed says how to get it."""

from collections.abc import Callable
from importlib.util import find_spec

import pytest

from sfumato.errors import BadParameter
from sfumato.sealed import providers
from sfumato.sealed.ashe import PRIMES, Ashe
from sfumato.sealed.providers import AsheProvider, Bfv, Paillier, Provider

PROVIDERS: dict[str, tuple[Callable[[], Provider], str]] = {
    "ashe": (lambda: AsheProvider(Ashe(bytes(32), PRIMES[0])), "cryptography"),
    "paillier": (Paillier, "phe"),
    "bfv": (Bfv, "tenseal"),
}


@pytest.mark.parametrize(("make", "module"), PROVIDERS.values(), ids=list(PROVIDERS))
def test_a_sum_of_ciphertexts_is_a_ciphertext_of_the_sum(make: Callable[[], Provider], module: str) -> None:
    if find_spec(module) is None:
        with pytest.raises(BadParameter, match=r"pip install 'sfumato\[(paillier|bfv)\]'"):
            make()
        return
    provider = make()
    for cell, values in enumerate(([5, 0, 7, 10**9], [1, 1])):
        sealed = provider.encrypt(values, cell)
        assert len(sealed) == len(values)
        assert provider.decrypt_sum(provider.add(sealed), cell, len(values)) == sum(values)
    with pytest.raises(BadParameter):
        provider.encrypt([-1], 9)


@pytest.mark.parametrize("make", [Paillier, Bfv])
def test_without_its_extra_a_scheme_is_refused_with_the_line_that_installs_it(
    make: Callable[[], Provider], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(_name: str) -> None:
        raise ImportError

    monkeypatch.setattr(providers, "import_module", absent)
    with pytest.raises(BadParameter, match=r"pip install 'sfumato\["):
        make()
