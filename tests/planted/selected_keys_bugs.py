"""Bugs of keys that are selected at a selected bound: a threshold for fewer rows, or for fewer groups."""

from tests.planted.bug import Bug, planned

_KEYS = "tests/paths/test_selected_keys.py"

SELECTED_KEYS_BUGS: tuple[Bug, ...] = (
    planned(
        "keys at a selected bound have a threshold for one row per person",
        _KEYS,
        (
            "planning/bounding/selection.py",
            "CountedKeys.by_delta(noise, selection.core, groups, selection.delta, one.sensitivity.linf)",
            "CountedKeys.by_delta(noise, selection.core, groups, selection.delta, 1)",
        ),
    ),
    planned(
        "keys at a selected bound have a threshold for one group per person",
        _KEYS,
        (
            "planning/bounding/selection.py",
            "    groups = min(selection.groups_per_unit, one.candidates.thresholds[one.selected])\n",
            "    groups = 1\n",
        ),
    ),
)
