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
    planned(
        "a view with other caps answers",
        _VIEWS,
        (
            "planning/view_signature.py",
            " or not plan.measured or not adds_up_by_cells(group):\n",
            " or not plan.measured or not group.public_keys:\n",
        ),
    ),
    planned(
        "a view with a condition of its own answers",
        _VIEWS,
        (
            "planning/view_cells.py",
            "        if not set(view.flow.conditions) <= set(asked.flow.conditions):\n            return None\n",
            "",
        ),
    ),
    planned(
        "a kept cell with rows of two asked cells is counted in one",
        _VIEWS,
        (
            "planning/view_cells.py",
            "table.setdefault(cell, to) != to:\n",
            "table.setdefault(cell, to) is None:\n",
        ),
    ),
    planned(
        "a derived number has the bar of one measurement",
        _VIEWS,
        (
            "release/intervals/confidence.py",
            "    if name is not None and plan.is_derived(group.group.label, name):\n        return False\n",
            "",
        ),
    ),
    planned(
        "refinement by fresh noise is charged as the difference",
        "tests/paths/test_refinement.py",
        (
            "refining.py",
            "values + law.draw(larger, source)",
            "values + Laplace(1, one.mechanism.scale, one.mechanism.neighbours).release(values * 0, source)",
        ),
    ),
    planned(
        "Rényi losses count a refinement as the difference",
        "tests/randomness/test_refined_laplace.py",
        (
            "accounting/rdp.py",
            "leaf_loss(Pure(event.conditional_loss, relation), order)",
            "leaf_loss(Pure(event.added_loss, relation), order)",
        ),
    ),
    planned(
        "the conditional draw is used with a delta",
        "tests/paths/test_refinement.py",
        ("refining.py", "    pure = not policy.budget.delta and key is None", "    pure = key is None"),
    ),
    planned(
        "one answer is refined twice",
        "tests/paths/test_refinement.py",
        ("database.py", "again.key if again else key", "key"),
    ),
)
"""All of them are noticed by laws of answers from answers."""
