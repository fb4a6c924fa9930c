"""Bugs of values that are measured first: parts that nobody pays for."""

from tests.planted.bug import Bug, planned

_VALUES = "tests/paths/test_noisy_values.py"

NOISY_VALUES_BUGS: tuple[Bug, ...] = (
    planned(
        "a value that is measured first is not charged",
        _VALUES,
        (
            "planning/planner.py",
            "Plan(private, groups, loss, event_of(groups), ways.tables, hierarchies",
            "Plan(private, groups, loss, event_of(groups[len(private.first) :]), ways.tables, hierarchies",
        ),
    ),
    planned(
        "what is kept of one threshold answers a question with another",
        _VALUES,
        (
            "planning/canonical_flow.py",
            "                if rows is None:\n                    raise NoisyInputError\n",
            "                rows = rows or ()\n",
        ),
    ),
)
