"""Bugs of marks and of what bounds are told to have cut: values that seem whole, and people who are not counted."""

from tests.planted.bug import Bug, planned

_MARKS = "tests/release/test_marks.py"

MARKS_BUGS: tuple[Bug, ...] = (
    planned(
        "no value is marked where nothing was measured of what was cut",
        _MARKS,
        (
            "release/bounding/marked_values.py",
            "    return (low is not None and below > allowed) or (high is not None and above > allowed)\n",
            "    return allowed < above < inf or allowed < below < inf\n",
        ),
        (
            "release/bounding/marked_values.py",
            "from functools import partial\n",
            "from functools import partial\nfrom math import inf\n",
        ),
    ),
    planned(
        "a count of people lacks only those who lost much",
        _MARKS,
        (
            "planning/bounding/truncation.py",
            "            here[CUT_PEOPLE] = max(min(little, fewer) + above.people, 1)\n",
            "            here[CUT_PEOPLE] = max(above.people, 1)\n",
        ),
    ),
)
