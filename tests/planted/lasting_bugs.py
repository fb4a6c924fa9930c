"""Bugs of a budget that lasts to plant: windows that open too often, and promises that are left out."""

from tests.planted.bug import Bug, planned

_WINDOWS = "tests/ledger/test_windows.py"

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
)
"""All of them are noticed by laws of the ledger."""
