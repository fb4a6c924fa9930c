"""Who may come in: what is drawn, what is kept of it, and that a change counts at once."""

import hmac
import os
import re
from hashlib import pbkdf2_hmac, sha256
from pathlib import Path

import pytest
from tests.server.clinic import make_clinic

from sfumato.errors import GrantsDamaged, UnknownName
from sfumato.policy.reading import read_policy
from sfumato.server.grants import OWNER, Grants
from sfumato.server.scram import is_proof, server_signature

_SECRET = re.compile(r"[A-Za-z0-9_.~+/=-]{16,}")


@pytest.fixture
def grants(tmp_path: Path) -> Grants:
    found = Grants(read_policy(make_clinic(tmp_path)))
    found.ready()
    return found


def test_a_token_opens_one_account_and_nothing_else_does(grants: Grants) -> None:
    research, press = grants.grant("research"), grants.grant("Press")
    assert _SECRET.fullmatch(research.token)
    assert _SECRET.fullmatch(research.password)
    found = grants.of_token(press.token)
    assert found is not None
    assert found.account == "press"
    assert grants.of_token(research.password) is None
    assert grants.of_token("") is None
    assert grants.of_token(research.token.swapcase()) is None
    assert grants.of_token("\ud800") is None


def test_neither_token_nor_password_lies_in_any_file(grants: Grants, tmp_path: Path) -> None:
    secrets = grants.grant("research")
    for path in tmp_path.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert secrets.token.encode() not in content
            assert secrets.password.encode() not in content
    assert secrets.token not in repr(secrets)
    assert os.stat(tmp_path / "clinic.ledger.grants").st_mode & 0o777 == 0o600


def test_granting_again_and_revoking_count_at_once_elsewhere(grants: Grants, tmp_path: Path) -> None:
    other = Grants(read_policy(tmp_path / "clinic.toml"))
    first = grants.grant("research")
    held = other.of_token(first.token)
    assert held is not None
    assert other.stands(held)
    second = grants.grant("research")
    assert other.of_token(first.token) is None
    assert not other.stands(held)
    assert other.of_token(second.token) is not None
    assert grants.revoke("research")
    assert other.of_token(second.token) is None
    assert not grants.revoke("research")


def test_the_verifier_accepts_the_proof_of_the_password_alone(grants: Grants) -> None:
    password = grants.grant("research").password
    login = grants.of_user("Research")[0]
    verifier = login.verifier
    assert login.grant is not None
    message = b"n=,r=a,r=ab,s=c,i=4096,c=biws,r=ab"
    for typed, fits in ((password, True), (password + "x", False)):
        salted = pbkdf2_hmac("sha256", typed.encode(), verifier.salt, verifier.iterations)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(sha256(client_key).digest(), message, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        assert is_proof(verifier, message, proof) is fits
        expected = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), message, "sha256")
        assert (server_signature(verifier, message) == expected) is fits


def test_unknown_users_look_like_known_ones(grants: Grants) -> None:
    grants.grant("research")
    known = grants.of_user("research")[0].verifier
    for name in ("nobody", "press", "", "\ud800", "n" * 10_000):
        logins = grants.of_user(name)
        assert len(logins) == len(grants.of_user("research"))
        assert all(login.grant is None for login in logins)
        stranger = logins[0].verifier
        assert grants.of_user(name)[0].verifier == stranger  # the same salt each time, also after a restart
        assert len(stranger.salt) == len(known.salt)
        assert stranger.iterations == known.iterations
        assert stranger.salt != known.salt


def test_the_owner_has_a_token_and_no_user_name(grants: Grants) -> None:
    found = grants.of_token(grants.grant(OWNER).token)
    assert found is not None
    assert found.account == OWNER
    assert all(login.grant is None for login in grants.of_user(OWNER))


def test_only_names_of_the_policy_are_granted(grants: Grants) -> None:
    with pytest.raises(UnknownName, match="There are: press, research, visitor"):
        grants.grant("nobody")


def test_an_analyst_who_was_taken_out_of_the_policy_is_out(grants: Grants, tmp_path: Path) -> None:
    token = grants.grant("press").token
    policy = tmp_path / "clinic.toml"
    policy.write_text(policy.read_text().replace("[analysts.press]", "[analysts.others]"))
    assert Grants(read_policy(policy)).of_token(token) is None


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": 1, "secret": "00", "grants": []}', "[" * 100_000])
def test_a_damaged_file_lets_nobody_in(grants: Grants, tmp_path: Path, content: str) -> None:
    token = grants.grant("research").token
    (tmp_path / "clinic.ledger.grants").write_text(content)
    with pytest.raises(GrantsDamaged):
        grants.of_token(token)
    with pytest.raises(GrantsDamaged):
        grants.of_user("research")


def test_a_file_that_others_can_read_lets_nobody_in(grants: Grants, tmp_path: Path) -> None:
    token = grants.grant("research").token
    (tmp_path / "clinic.ledger.grants").chmod(0o640)
    with pytest.raises(GrantsDamaged, match="read by others"):
        grants.of_token(token)
