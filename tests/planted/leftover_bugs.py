"""Bugs to plant in counts of different values, in ends beyond all floats, and in what an owner is told."""

from tests.planted.bug import Bug, planned

LEFTOVER_BUGS: tuple[Bug, ...] = (
    planned(
        "a count of different values has one public key too few",
        "tests/paths/test_distinct.py",
        ("analysis/groups.py", "replace(aggregate, values=len(known))", "replace(aggregate, values=len(known) - 1)"),
    ),
    planned(
        "what overflows has an infinite lower end",
        "tests/release/test_total_bars.py",
        ("release/intervals/extension.py", "within(outward(rule(", "within(tuple(rule("),
    ),
    planned(
        "an analyst is told that a snapshot could not be taken",
        "tests/paths/test_snapshots.py",
        ("opening.py", "        if not account:\n            warn_owner", "        if True:\n            warn_owner"),
    ),
    planned(
        "a row that does not count makes a sum fail on Spark",
        "tests/engines/test_spark_digits.py",
        (
            "engines/spark/dialect.py",
            "_LONG_DIGITS if max_magnitude(facts) < STORED_LIMIT else",
            "14 if max_magnitude(facts) < STORED_LIMIT else",
        ),
    ),
)
