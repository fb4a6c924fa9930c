"""Bugs of answers from answers to plant: cells that do not add up, numbers of others, and bars of something else."""

from tests.planted.bug import Bug, planned

_VIEWS = "tests/paths/test_views.py"

VIEWS_BUGS: tuple[Bug, ...] = (
    planned(
        "rows that are in no group are taken for none",
        _VIEWS,
        (
            "planning/view_cells.py",
            "            every = product(*(key.measured_values for key in keys))\n",
            "            every = product(*(key.cells or () for key in keys))\n",
        ),
    ),
    planned(
        "a view of another account answers",
        _VIEWS,
        (
            "views.py",
            "        accounts = self.ledger.accounts() if self.account is None else (self.account,)\n",
            "        accounts = self.ledger.accounts()\n",
        ),
    ),
    planned(
        "a view of another snapshot answers",
        _VIEWS,
        (
            "ledger/store.py",
            'AND {FAMILY} = {value} AND version = {value}"',
            'AND {FAMILY} = {value} AND version >= substr({value}, 1, 0)"',
        ),
    ),
)
"""All of them are noticed by laws of answers from answers."""
