"""Bugs to plant in reading policies again, in the datasets of one server, in roles of claims and in limits."""

from tests.planted.bug import Bug, planned

_RELOADING = "tests/server/test_reloading.py"
_NEVER_RECORDS = f"{_RELOADING}::test_a_reload_never_records_a_policy"
_IDENTITY = "tests/server/test_identity.py"
_ROLES = f"{_IDENTITY}::test_roles_come_from_claims_and_follow_into_sessions_passwords_and_caches"

RELOADING_BUGS: tuple[Bug, ...] = (
    planned(
        "a reload brings a larger budget into force by itself",
        _NEVER_RECORDS,
        (
            "server/reloading.py",
            "if await asyncio.to_thread(policy_in_force, gate.owner.payer.ledger) != policy_hash(found):",
            "if False:",
        ),
        ("ledger/opening.py", "if is_recorded and transaction.state.policy != policy_hash(policy):", "if False:"),
    ),
    planned(
        "a policy that is not recorded can be opened by a server",
        _NEVER_RECORDS,
        ("ledger/opening.py", "if is_recorded and transaction.state.policy != policy_hash(policy):", "if False:"),
    ),
    planned(
        "questions are answered while the file says something that nobody recorded",
        "tests/server/test_gate.py",
        ("server/watch.py", "if last.found is not None and not last.is_in_force:", "if False:"),
    ),
    planned(
        "a reload closes the handles of requests that are under way",
        f"{_RELOADING}::test_requests_under_way_end_with_the_handles_they_began_with",
        ("server/handles.py", "            is_unused = not self._uses\n", "            is_unused = True\n"),
    ),
    planned(
        "an answer of the policy before is kept for the next",
        f"{_RELOADING}::test_an_answer_of_the_policy_before_is_not_kept_for_the_next",
        ("server/gate.py", "repr((self.policies, sql, ", "repr((sql, "),
    ),
    planned(
        "who has left the policy is told who is in it",
        f"{_RELOADING}::test_who_is_no_longer_in_the_policy_learns_nobody_elses_name",
        ("server/handles.py", "if self.owner.policy.analyst(account) is None:", "if False:"),
    ),
    planned(
        "a session of the provider keeps all rights when roles come from claims",
        "tests/server/test_sessions.py::test_a_session_of_the_provider_counts_under_the_policy_in_force",
        (
            "server/grants.py",
            "return grant.kind is GrantKind.TOKEN or policy.identity is None or policy.identity.roles is None",
            "return True",
        ),
    ),
    planned(
        "the database name does not choose the dataset",
        "tests/server/test_datasets.py",
        (
            "server/wire/serving.py",
            "next((gate for gate in self.gates if gate.policy.name == database), self.gates[0])",
            "self.gates[0]",
        ),
    ),
    planned(
        "an owner reads the metrics of all datasets",
        "tests/server/test_datasets.py",
        ("server/datasets.py", "        if not opens_metrics(bearer_token(request)):\n", "        if False:\n"),
    ),
    planned(
        "a cached answer is given to roles that may not ask",
        _ROLES,
        ("server/gate.py", "question = (caller.view, version", "question = (caller.account, version"),
        (
            "server/gate.py",
            "key = (caller.view, release.receipt.version, request_digest)",
            "key = (caller.account, release.receipt.version, request_digest)",
        ),
    ),
    planned(
        "a password that was drawn with a role has all rights",
        _ROLES,
        ("server/console/sign_on.py", "PASSWORD_SECONDS, grant.roles, grant", "PASSWORD_SECONDS, None, grant"),
    ),
    planned(
        "a token that names no role of the policy has all rights",
        _ROLES,
        ("server/grants.py", "        if roles == ():\n            return None\n", "        roles = roles or None\n"),
    ),
    planned(
        "a log-in at the identity provider is finished twice",
        f"{_IDENTITY}::test_a_state_counts_once_even_if_the_provider_takes_a_code_twice",
        ("server/identity.py", "if not self._once(_digest(state), int(began) + FLOW_SECONDS + 1):", "if False:"),
    ),
    planned(
        "connections before log-in have no limit",
        "tests/server/test_connections.py",
        ("server/connections.py", "elif self._waiting_count >= limits.connections_before_login:", "elif False:"),
        ("server/connections.py", "if self._waiting_count > self.limits.connections_before_login:", "if False:"),
    ),
)
