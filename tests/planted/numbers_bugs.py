"""Bugs of counts of different values, of groups per person, and of vectors of nested conditions."""

from tests.planted.bug import Bug, planned

_VALUES = "tests/paths/test_public_values.py"

NUMBERS_BUGS: tuple[Bug, ...] = (
    planned(
        "the interval of a count of different values ends below the number of public ones",
        _VALUES,
        (
            "release/intervals/confidence.py",
            "    return [None if bar is None else (max(bar[0], 0), min(bar[1], most)) for bar in bars]",
            "    return [None if bar is None else (max(bar[0], 0), min(bar[1], most - 1)) for bar in bars]",
        ),
    ),
)
