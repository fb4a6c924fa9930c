"""Bugs to plant in what a server remembers, and in what an identity provider vouched for."""

from tests.planted.bug import Bug, planned

_CLAIMS = "tests/paths/test_rights_requests.py::test_rights_by_claims_are_granted_for_one_text_and_still_limit_its_use"
_SESSIONS = "tests/server/test_sessions.py::test_a_session_of_the_provider_counts_under_the_policy_in_force"

SERVER2_BUGS: tuple[Bug, ...] = (
    planned(
        "a grant of names ignores what the claims give when it is used",
        _CLAIMS,
        ("prepare.py", "self._ledger, names, roles=self.roles) if names", "self._ledger, names) if names"),
    ),
    planned(
        "a request for rights is judged by roles that the claims do not name",
        _CLAIMS,
        ("approvals.py", "self.payer.ledger, names, roles=found.roles)", "self.payer.ledger, names)"),
    ),
    planned(
        "names that were granted for one text are described in others",
        _CLAIMS,
        (
            "granted_texts.py",
            "    wider = _with_granted_names(preparer, sql, refused)\n",
            "    wider = _with_granted_names(preparer, sql.partition(' ORDER')[0], refused)\n",
        ),
    ),
    planned(
        "a session outlives the provider that vouched for it",
        _SESSIONS,
        ("server/grants.py", "grant.identity != identity_digest(policy.identity)", "grant.identity is None"),
    ),
    planned(
        "a password outlives the provider that vouched for its person",
        _SESSIONS,
        (
            "server/grants.py",
            "vouched = grant.kind is not GrantKind.TOKEN or grant.identity is not None",
            "vouched = grant.kind is not GrantKind.TOKEN",
        ),
    ),
    planned(
        "wide answers at hand have no limit of bytes",
        "tests/server/test_gate.py",
        ("server/gate.py", "size = release_bytes(release)", "size = 0"),
    ),
    planned(
        "numbers that functions remember have no limit of bytes",
        "tests/test_caches.py",
        ("caches.py", "if self.bytes > MAX_NUMBER_BYTES:", "if False:"),
    ),
)
