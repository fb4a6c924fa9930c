"""Bugs to plant in the rights of roles, in grants and log-in, and in the limits of a server."""

from tests.planted.bug import Bug, planned

_RIGHTS = "tests/paths/test_rights.py"
_ACCESS = "tests/server/test_access.py"
_IDENTITY = "tests/server/test_identity.py"

OPERATOR_BUGS: tuple[Bug, ...] = (
    planned(
        "questions are read against the whole catalog",
        _RIGHTS,
        ("prepare.py", "whole, visible_catalog(whole, self._rights)", "whole, whole"),
    ),
    planned(
        "notes spell a privacy unit that the account may not use",
        _RIGHTS,
        ("analysis/catalog.py", "return dataclasses.replace(field, name=_HIDDEN_UNIT)", "return field"),
    ),
    planned(
        "a shared answer of another account tells the text of its question",
        _RIGHTS,
        (
            "database.py",
            "            if found.account == self.account:\n                raise\n",
            "            raise\n",
        ),
    ),
    planned(
        "a stored receipt names a unit that the account may not use",
        _RIGHTS,
        ("database.py", "replace(receipt, units=asked.units, cohorts=named)", "replace(receipt, cohorts=named)"),
    ),
    planned(
        "extension packages read names against the whole catalog",
        _RIGHTS,
        ("measure.py", "catalog = database.catalog_of(engine)", "catalog = engine.catalog"),
    ),
    planned(
        "a role without a list of columns for a table may use all of it",
        _RIGHTS,
        (
            "policy/policy.py",
            "return self.columns is None or (table, ALL_COLUMNS) in self.columns or (table, column) in self.columns",
            "return True",
        ),
    ),
    planned(
        "an expired token opens its account",
        _ACCESS,
        ("server/grants.py", "self._clock() >= grant.expires", "self._clock() >= 2 * grant.expires"),
    ),
    planned(
        "a token that is replaced counts on",
        _ACCESS,
        (
            "server/grant_stores/sqlite.py",
            "            _remove_grants(connection, (identity for (identity,) in replaced))\n",
            "            for one in replaced:\n"
            '                connection.execute("UPDATE grants SET label = id WHERE id = ?", one)\n',
        ),
    ),
    planned(
        "the number of verifiers tells how many tokens a user has",
        _ACCESS,
        ("server/grants.py", "*[Login(fake, None)] * (MAX_GRANTS_PER_PERSON - len(logins))", "Login(fake, None)"),
    ),
    planned(
        "a silent database of grants lets its last content count for ever",
        _ACCESS,
        (
            "server/grant_stores/postgres.py",
            "        if monotonic() - self._answered > MAX_SILENT_SECONDS:\n",
            "        if False:\n",
        ),
    ),
    planned(
        "an owner who was taken out of the policy keeps access",
        _ACCESS,
        ("server/grants.py", "not grant.person or grant.person in map(fold_name, self._policy.owners)", "True"),
    ),
    planned(
        "a token of the identity provider for another audience counts",
        _IDENTITY,
        ("server/identity.py", " or not wanted.intersection(map(str, named))", ""),
    ),
    planned(
        "an expired token of the identity provider counts",
        _IDENTITY,
        ("server/identity.py", "now >= expires + LEEWAY_SECONDS or any(", "any("),
    ),
    planned(
        "a token of the identity provider is exchanged again",
        _IDENTITY,
        ("server/identity.py", "if key in self._expires or len", "if len"),
    ),
    planned(
        "the code flow can be finished in another browser",
        _IDENTITY,
        ("server/console/sign_on.py", " and compare_digest(expected.encode(), _digest(state).encode())", ""),
    ),
    planned(
        "a key that the identity provider took back counts on",
        _IDENTITY,
        (
            "server/identity.py",
            "        self._keys, self._fetched = keys, now\n",
            "        self._keys |= keys\n        self._fetched = now\n",
        ),
    ),
)
