"""Bugs to plant in requests and one-time grants."""

from tests.planted.bug import Bug, planned

_LAWS = "tests/ledger/test_approvals.py"

APPROVALS_BUGS: tuple[Bug, ...] = (
    planned(
        "a grant is used twice",
        _LAWS,
        ("ledger/one_time_grants.py", "    return without(requests, charge.about)", "    return dict(requests)"),
    ),
    planned(
        "a grant pays for another measurement",
        _LAWS,
        (
            "ledger/one_time_grants.py",
            "length_prefixed(account, question, _unordered_text(event))",
            "length_prefixed(account, _unordered_text(event))",
        ),
    ),
    planned(
        "a grant pays for another price",
        _LAWS,
        (
            "ledger/one_time_grants.py",
            "length_prefixed(account, question, _unordered_text(event))",
            "length_prefixed(account, question)",
        ),
    ),
    planned(
        "a charge with a grant is not charged to the dataset",
        _LAWS,
        (
            "ledger/state.py",
            "        charged_to_all(state, row.account, event)\n",
            "        state if row.about else charged_to_all(state, row.account, event)\n",
        ),
    ),
    planned(
        "a request that waits pays like a grant",
        _LAWS,
        ("ledger/one_time_grants.py", "if request.approved and request.account", "if request.account"),
        ("ledger/one_time_grants.py", "if not granted.approved or granted", "if granted"),
    ),
    planned(
        "two owners approve one request",
        _LAWS,
        ("ledger/approvals.py", "    if _open_request(transaction, place, DATASET).approved:", "    if False:"),
        ("ledger/one_time_grants.py", "author == OWNER_AUTHOR and not known.approved:", "author == OWNER_AUTHOR:"),
    ),
    planned(
        "a grant of a backup is used again after the restore",
        _LAWS,
        ("ledger/state.py", "reached={}, requests={})", "reached={})"),
    ),
    planned(
        "what a grant revealed is not in the analyst's spent",
        _LAWS,
        (
            "ledger/caps.py",
            "    if account in state.granted:\n        return (DATASET,)",
            "    if False:\n        return (DATASET,)",
        ),
    ),
    planned(
        "an analyst approves requests",
        "tests/paths/test_requests.py",
        ("approvals.py", '        self._require_owner("approve a request")\n', ""),
    ),
    planned(
        "an analyst approves requests through the server",
        "tests/server/test_requests.py",
        ("server/approvals.py", "if what in OWNERS_DECISIONS and caller.account != OWNER:", "if False:"),
        ("approvals.py", '        self._require_owner("approve a request")\n', ""),
    ),
)
