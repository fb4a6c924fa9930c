"""Bugs of counts of different values, of groups per person, and of vectors of nested conditions."""

from tests.planted.bug import Bug, planned

_GROUPS = "tests/paths/test_chosen_groups.py"
_VALUES = "tests/paths/test_public_values.py"

NUMBERS_BUGS: tuple[Bug, ...] = (
    planned(
        "the interval of a count of different values ends below the number of public ones",
        _VALUES,
        (
            "release/intervals/confidence.py",
            "        return [bar and (max(bar[0], 0), min(bar[1], most)) for bar in ends]",
            "        return [bar and (max(bar[0], 0), min(bar[1], most - 1)) for bar in ends]",
        ),
    ),
    planned(
        "people count in one group more than the selected bound",
        _GROUPS,
        (
            "engines/sql/group.py",
            'f"{placed.first} <= {level}") for level in levels]',
            'f"{placed.first} <= {level} + 1") for level in levels]',
        ),
    ),
    planned(
        "the noise of a number of people is that of one group at every bound",
        _GROUPS,
        (
            "planning/bounding/selection.py",
            "replace(contribution, groups=amount), cells, neighbours) for amount",
            "replace(contribution, groups=1), cells, neighbours) for amount",
        ),
    ),
)
