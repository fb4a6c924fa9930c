"""Bugs of a budget that lasts to plant: windows that open too often, and people who are read and do not pay."""

from tests.planted.bug import Bug, planned

_WINDOWS = "tests/ledger/test_windows.py"
_COHORTS = "tests/ledger/test_cohorts.py"
_PATH = "tests/paths/test_cohorts.py"

LASTING_BUGS: tuple[Bug, ...] = (
    planned(
        "a clock that goes back opens a window",
        _WINDOWS,
        ("ledger/windows.py", "if starts[window.every] > window.since:", "if starts[window.every] != window.since:"),
    ),
    planned(
        "an analyst's new window renews the dataset's budget",
        _WINDOWS,
        (
            "ledger/state.py",
            "emptied(state.accounts[name]) for name in begun}}\n",
            "emptied(state.accounts[name]) for name in (*begun, DATASET)}}\n",
        ),
    ),
    planned(
        "a change of the policy begins a window anew",
        _WINDOWS,
        (
            "ledger/windows.py",
            "        before = windows[name].since if name in windows else 0\n",
            "        before = -1\n",
        ),
        (
            "ledger/state.py",
            "        accounts=with_caps(state.accounts, policy),\n",
            "        accounts={name: emptied(cap) for name, cap in with_caps(state.accounts, policy).items()},\n",
        ),
    ),
    planned(
        "a lifetime is promised over windows that are gone",
        _WINDOWS,
        ("ledger/state.py", "and policy.periods.get(DATASET) != window.every", "and False"),
    ),
    planned(
        "a budget renews without the owner's word",
        _WINDOWS,
        (
            "policy/reading.py",
            '    if (budget["every"] is None) != (budget["lifetime"] is None):\n',
            '    if budget["every"] is None and budget["lifetime"] is not None:\n',
        ),
    ),
    planned(
        "a person who moved is read by a question that their cohort does not pay",
        _PATH,
        ("engines/sql/cohorts.py", 'f"coalesce(k.cohort, {cohort})"', "cohort"),
    ),
    planned(
        "a question reads by the cohort's column and not by the kept cohort",
        _PATH,
        ("engines/duckdb/engine.py", "if plan.cohorts is not None:", "if False:"),
    ),
    planned(
        "another table of the same people is read whole",
        _PATH,
        (
            "engines/sql/cohorts.py",
            "        if table.public:\n            continue\n",
            "        if table.public or (policy.cohort is not None and table.name != policy.cohort.table):\n"
            "            continue\n",
        ),
    ),
    planned(
        "people who were away come back into another cohort",
        _PATH,
        ("engines/sql/cohorts.py", "    if kept is not None:\n        away", "    if False:\n        away"),
    ),
    planned(
        "the charge of a cohort is forgotten where everybody pays",
        _COHORTS,
        (
            "ledger/state.py",
            "lambda name, cap: cap.charge(event) if name in names else cap)",
            "lambda name, cap: cap)",
        ),
    ),
    planned(
        "a charge to everybody is forgotten for those who come later",
        _COHORTS,
        (
            "ledger/state.py",
            "    accounts = {**state.accounts, **{name: state.accounts[name].charge(event) for name in names}}\n",
            "    accounts = dict(state.accounts)\n",
        ),
    ),
    planned(
        "another assignment of people to cohorts begins at nothing",
        _COHORTS,
        (
            "ledger/state.py",
            "accounts=collapsed(state.accounts, state.cohorts), cohorts={}, kept=kept",
            "cohorts={}, kept=kept",
        ),
    ),
    planned(
        "people of a cohort that is not declared any more are read and do not pay",
        _PATH,
        ("policy/cohorts.py", "*(name for name in before if name != OTHER), OTHER]", "OTHER]"),
    ),
    planned(
        "another assignment of people to cohorts has the answers of the one before",
        _PATH,
        ("engines/snapshots.py", "and same_data and same_people else", "and same_data else"),
    ),
    planned(
        "a charge of one cohort is taken up for another",
        _COHORTS,
        ("ledger/transaction.py", "if same_price and same_people and", "if same_price and"),
    ),
    planned(
        "what is spent is of the cohort with the least left, not of the one that lost most",
        _COHORTS,
        (
            "ledger/caps.py",
            "    losses = [cap.spent if",
            "    caps = [min(caps, key=_room)]\n    losses = [cap.spent if",
        ),
    ),
    planned(
        "an answer that others paid for names cohorts to a role without the column",
        _PATH,
        ("database.py", "receipt.cohorts if asked.shows_cohorts else ()", "receipt.cohorts"),
    ),
    planned(
        "a question about one cohort has the identity of one about all",
        _PATH,
        ("question_cohorts.py", "return digest if cohorts is None else", "return digest if True else"),
    ),
)
"""All of them are noticed by laws of the ledger, or of cohorts on the whole path."""
