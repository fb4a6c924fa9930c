"""Planted bugs in numbers that share one price, and in how bounds are selected."""

from tests.planted.bug import Bug, planned

_BOUNDS = "tests/release/test_credible_bounds.py"
_REUSED = "tests/paths/test_steps_reused.py"

NUMBERS2_BUGS: tuple[Bug, ...] = (
    planned(
        "a refined vector is charged for every measurement",
        _REUSED,
        ("refining.py", "(together if measurement.name in group.vector else events)", "events"),
    ),
    planned(
        "how an earlier version measured decides what is exact enough",
        _REUSED,
        (
            "kept_answers.py",
            "        other = names.fingerprint != asked.names.fingerprint\n",
            "        other = False\n",
        ),
    ),
    planned(
        "a sum of steps is read where nothing was measured",
        _REUSED,
        (
            "release/marginal_consistency.py",
            "[(made.get((label, name)) or _own(label, name, found), sign) for name, sign in one.terms]",
            "[(_own(label, name, found), sign) for name, sign in one.terms]",
        ),
    ),
    planned(
        "what one step adds another does not take away",
        _REUSED,
        (
            "planning/view_signature.py",
            "                own[name] = own.get(name, 0) - each * times\n",
            "                own[name] = own.get(name, 0) + 0 * times\n",
        ),
    ),
    planned(
        "a bound may be as far above the evidence as noise says",
        _BOUNDS,
        (
            "release/bounding/tail_counts.py",
            "_EVIDENT_PROBABILITY) + _STEPS_ABOVE_EVIDENCE, last)\n",
            "_EVIDENT_PROBABILITY) + last, last)\n",
        ),
    ),
    planned(
        "a bound is taken at which hardly a group appears",
        _BOUNDS,
        ("release/bounding/selection.py", "_LARGE_GROUPS = 32\n", "_LARGE_GROUPS = 4\n"),
    ),
    planned(
        "every bound is sure by as many people as the first",
        _BOUNDS,
        ("release/bounding/tail_counts.py", "min(chance / 2, chance * ratio)", "chance / 2"),
    ),
    planned(
        "a limit of different values far above the others needs no more than the next",
        "tests/mechanisms/test_matched_count.py",
        ("mechanisms/matched_count.py", "/ _FALSE_LIMIT_FACTOR**index, least)", ", least)"),
    ),
)
