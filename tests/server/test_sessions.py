"""Console sessions: they end at log-out, at revocation, when idle and in time, and their number is bounded."""

from pathlib import Path
from time import time

import pytest
from tests.server.clinic import make_clinic

from sfumato.policy.canonical import identity_digest
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy
from sfumato.server import sessions as module
from sfumato.server.grant_stores.stored import Grant
from sfumato.server.grants import Grants
from sfumato.server.sessions import IDLE_SECONDS, LIFETIME_SECONDS, Sessions

IDENTITY = '\n[identity]\nissuer = "https://login.example.org/"\naudience = "sfumato"\n'
WITH_ROLES = f'{IDENTITY}roles = "claims.groups"\n\n[roles.low]\ntables = ["wards"]\n'


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def grants(tmp_path: Path) -> Grants:
    return Grants(read_policy(make_clinic(tmp_path)))


def granted(grants: Grants, name: str) -> Grant:
    found = grants.of_token(grants.grant(name).token)
    assert found is not None
    return found


def test_a_session_ends_at_log_out_and_at_revocation_and_when_granted_again(grants: Grants) -> None:
    sessions = Sessions(grants, Clock())
    research, press = granted(grants, "research"), granted(grants, "press")
    first, second, other = sessions.begin(research), sessions.begin(research), sessions.begin(press)
    assert len({first, second, other}) == 3
    assert all(len(one) == 64 for one in (first, second, other))
    sessions.end(first)
    assert sessions.grant_of(first) is None
    assert sessions.grant_of(second) == research
    grants.revoke("research")
    assert sessions.grant_of(second) is None
    assert sessions.grant_of(other) == press
    granted(grants, "press")
    assert sessions.grant_of(other) is None
    assert sessions.grant_of("") is sessions.grant_of("x" * 64) is None


def test_a_session_ends_when_nobody_uses_it_and_after_its_lifetime(grants: Grants) -> None:
    clock = Clock()
    sessions = Sessions(grants, clock)
    idle, busy = (sessions.begin(granted(grants, name)) for name in ("research", "press"))
    while clock.now < LIFETIME_SECONDS:
        assert sessions.grant_of(busy) is not None
        clock.now += IDLE_SECONDS / 2
    assert sessions.grant_of(busy) is None
    assert sessions.grant_of(idle) is None
    assert sessions.count == 0


def test_their_number_is_bounded_and_one_account_ends_only_its_own(
    grants: Grants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SESSIONS", 20)
    sessions = Sessions(grants, Clock())
    research, press = granted(grants, "research"), granted(grants, "press")
    kept = sessions.begin(press)
    for _ in range(100):
        last = sessions.begin(research)
    assert sessions.grant_of(kept) == press
    assert sessions.grant_of(last) == research
    for _ in range(100):
        sessions.begin(press)
    assert sessions.grant_of(last) == research
    assert sessions.count <= 20


@pytest.mark.parametrize(
    ("before", "claimed", "after"),
    [
        pytest.param(IDENTITY, None, "", id="the provider was removed"),
        pytest.param(IDENTITY, None, WITH_ROLES, id="roles come from claims now"),
        pytest.param(WITH_ROLES, ("low",), WITH_ROLES.replace("low", "other"), id="the role was removed"),
        pytest.param(IDENTITY, None, IDENTITY.replace("login.", "other."), id="another issuer"),
        pytest.param(IDENTITY, None, IDENTITY.replace('"sfumato"', '"other"'), id="another audience"),
        pytest.param(IDENTITY, None, f'{IDENTITY}analyst = "claims.sub"\n', id="another claim names people"),
        pytest.param(WITH_ROLES, ("low",), WITH_ROLES.replace("groups", "roles"), id="another claim names roles"),
    ],
)
def test_a_session_of_the_provider_counts_under_the_policy_in_force(
    tmp_path: Path, before: str, claimed: tuple[str, ...] | None, after: str
) -> None:
    def policy(more: str) -> Policy:
        made = make_clinic(tmp_path)
        made.write_text(made.read_text() + more)
        return read_policy(made)

    grants = Grants(policy(before))
    grants.ready()
    sessions = Sessions(grants)
    identity = grants.policy.identity
    assert identity is not None
    digest = identity_digest(identity)
    grant = grants.identity_grant("research", time(), None, claimed, identity=digest)
    assert grant is not None
    by_provider, by_token = sessions.begin(grant), sessions.begin(granted(grants, "press"))
    drawn = grants.grant("research", "console", 600, grant.roles, grant.identity)
    assert sessions.grant_of(by_provider) is not None
    assert grants.of_token(drawn.token) is not None
    grants.use_policy(policy(after))
    assert not grants.stands(grant)
    assert grants.identity_grant("research", time(), None, claimed, identity=digest) is None  # verified just before
    assert grants.of_token(drawn.token) is None
    assert sessions.grant_of(by_provider) is None
    assert sessions.grant_of(by_token) is not None  # the owner granted it
    grants.close()
