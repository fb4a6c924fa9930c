"""Bugs of refinement to plant: noise that was not paid for, and numbers taken for independent or for another view."""

from tests.planted.bug import Bug, planned

_PURE = "tests/paths/test_refinement.py"
_GAUSSIAN = "tests/paths/test_gaussian_refinement.py"
_VIEWS = "tests/paths/test_views.py"
_COHORTS = "tests/ledger/test_cohorts.py"
_BACKUPS = "tests/backups/test_cohorts.py"

REFINE_BUGS: tuple[Bug, ...] = (
    planned(
        "refinement by fresh Laplace noise is charged as the difference",
        _PURE,
        (
            "refining.py",
            "values + law.draw(larger, source)",
            "values + Laplace(1, measurement.mechanism.scale, measurement.mechanism.neighbours)"
            ".release(values * 0, source)",
        ),
    ),
    planned(
        "Rényi losses count a conditional draw as the difference",
        "tests/randomness/test_refined_laplace.py",
        (
            "accounting/rdp.py",
            "leaf_loss(Pure(event.conditional_loss, relation), order)",
            "leaf_loss(Pure(event.added_loss, relation), order)",
        ),
    ),
    planned(
        "the conditional draw is used with a delta",
        _PURE,
        ("refining.py", "    if policy.budget.delta:  # the", "    if policy.budget.delta < 0:  # the"),
    ),
    planned(
        "one answer is refined twice by the conditional draw",
        _PURE,
        ("database.py", "again.key if again else key", "key"),
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
        "groups that were not selected are taken for empty ones",
        _VIEWS,
        (
            "planning/view_signature.py",
            "    if plan.selection is not None or plan.chosen or not plan.measured or not adds_up_by_cells(group):\n",
            "    if plan.chosen or not plan.measured:\n",
        ),
        (
            "planning/view_cells.py",
            "            every = product(*(key.measured_values for key in keys))\n",
            "            every = product(*(key.cells or () for key in keys))\n",
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
        "numbers that were drawn from one another are combined as independent",
        _PURE,
        (
            "views.py",
            '"" if receipt.refines in receipt.rests_on else receipt.refines',
            '""',
        ),
    ),
    planned(
        "Gaussian noise of the whole variance is charged as that of the difference",
        _GAUSSIAN,
        (
            "gaussian_refining.py",
            "    return replace(plan, groups=groups, loss=",
            "    return replace(plan, groups=plan.groups, loss=",
        ),
    ),
    planned(
        "Gaussian noise for the difference to Laplace noise exceeds the epsilon that was asked for",
        _GAUSSIAN,
        (
            "gaussian_refining.py",
            "if not isinstance(mechanism, Gaussian) and asked.price_target.epsilon is not None:",
            "if not isinstance(mechanism, Gaussian) and asked.price_target.epsilon == 0:",
        ),
    ),
    planned(
        "a refinement with the noise of the answer before it returns that answer",
        _GAUSSIAN,
        ("planning/measurement_identity.py", '[["refines", refines]] if refines else []', "[]"),
    ),
    planned(
        "a vector is refined for less than its finest part",
        _GAUSSIAN,
        (
            "refining.py",
            "            finest = min(event.scale / event.sensitivity for event in together)\n",
            "            finest = (wider + min(event.scale / event.sensitivity for event in together)) / 2\n",
        ),
    ),
    planned(
        "a backup leaves the kept cohorts out",
        _BACKUPS,
        ("backups/backup.py", "        if cohorts is not None:\n", "        if cohorts is None:\n"),
    ),
    planned(
        "a restore puts older cohorts beside a ledger with later charges",
        _BACKUPS,
        ("backups/restore.py", "if restored.is_at_cut and ", "if "),
    ),
    planned(
        "cohorts that share an analyst's cap have it each for itself",
        _COHORTS,
        ("ledger/state.py", "for name in names if name in state.together}", "for name in names if False}"),
    ),
    planned(
        "a cap that cohorts share begins at nothing",
        _COHORTS,
        (
            "ledger/state.py",
            "    whole = collapsed({name: state.accounts[name] for name in begin}, state.cohorts)\n",
            "    whole: dict[str, Filter] = {}\n",
        ),
    ),
    planned(
        "a kept answer with more noise than the plan answers a share",
        _GAUSSIAN,
        ("kept_answers.py", "(at_any_accuracy or _is_no_worse(found[0], asked.plan))", "True"),
    ),
)
"""All of them are noticed by laws of refinement, or of answers from answers."""
