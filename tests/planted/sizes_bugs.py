"""Bugs of what the copy says of repeated values: a person counts several times for one key, or not at all."""

from tests.planted.bug import Bug, planned

_REPEATS = "tests/engines/test_value_repeats.py"

SIZES_BUGS: tuple[Bug, ...] = (
    planned(
        "every row of a repeated value counts as a person",
        _REPEATS,
        (
            "engines/sql/bounding/value_repeats.py",
            "CASE WHEN nth = 1 THEN n ELSE 0 END AS n",
            "n",
        ),
    ),
    planned(
        "every chosen row of a repeated value counts as a person",
        _REPEATS,
        (
            "engines/sql/bounding/value_repeats.py",
            'several = f"CASE WHEN {number} = 1 THEN count(*) OVER (PARTITION BY r.id, r.c{at}) ELSE 0 END"',
            'several = f"CASE WHEN {number} >= 1 THEN count(*) OVER (PARTITION BY r.id, r.c{at}) ELSE 0 END"',
        ),
    ),
    planned(
        "first rows stand for people although a condition left some of them out",
        _REPEATS,
        (
            "engines/sql/value_ranks.py",
            "whole = len(group.keys) == 1 and keeps_all_rows(group.rows) and not group.contribution.bound_rows",
            "whole = len(group.keys) == 1 and not group.contribution.bound_rows",
        ),
    ),
    planned(
        "a first row of one key stands for a person in every cell of two",
        _REPEATS,
        (
            "engines/sql/value_ranks.py",
            "whole = len(group.keys) == 1 and keeps_all_rows(group.rows) and not group.contribution.bound_rows",
            "whole = keeps_all_rows(group.rows) and not group.contribution.bound_rows",
        ),
    ),
    planned(
        "first rows stand for people where rows meet others and repeat",
        _REPEATS,
        (
            "engines/sql/value_ranks.py",
            """    if not group.identity or not rows_are_distinct(group.rows):
        return None
    found = (with_auxiliary_column""",
            """    if not group.identity:
        return None
    found = (with_auxiliary_column""",
        ),
    ),
)
