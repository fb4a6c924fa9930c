"""Bugs to plant again: losses of another snapshot told of an answer; times of one row that make an engine fail."""

from tests.planted.bug import Bug, planned

HOSTILE_PATH_BUGS: tuple[Bug, ...] = (
    planned(
        "an answer is told what another snapshot lacks",
        "tests/paths/test_reopened_losses.py",
        (
            "database.py",
            "self._shared.truncation_bounds(receipt.version)",
            "self._shared.truncation_bounds(asked.engine.version)",
        ),
    ),
    planned(
        "losses that were measured under another policy are read",
        "tests/paths/test_reopened_losses.py",
        ("database.py", " and receipt.policy != self.payer.policy:", " and False:"),
    ),
    planned(
        "months lead an engine out of the years that it knows",
        "tests/engines/test_totality_times.py",
        ("language/lower_times.py", "        time = _stays_in_calendar(time, span.months)\n", "        pass\n"),
    ),
    planned(
        "sets of keys are written out before they are counted",
        "tests/query/test_many_sets_of_keys.py::test_too_many_sets_are_refused_and_not_written_out",
        (
            "query/parsing/grouping.py",
            "    number = prod(_count_sets(part) for part in group.expressions)\n",
            "    number = prod(len(_sets(part)) for part in group.expressions)\n",
        ),
    ),
)
