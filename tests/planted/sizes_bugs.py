"""Bugs of what is counted by marks in the copy, and of what is chosen in many cells at once."""

from tests.planted.bug import Bug, planned

_REPEATS = "tests/engines/test_value_repeats.py"

_CELLS = "tests/mechanisms/test_quantile_cells.py"

SIZES_BUGS: tuple[Bug, ...] = (
    planned(
        "in many cells at once the value that holds the quantile is no candidate",
        _CELLS,
        (
            "mechanisms/quantile_cells.py",
            "holds[:-1] = (off[:-1] < 0) & (off[1:] > 0)",
            "holds[:-1] = (off[:-1] < 0) & (off[1:] > 0) & (off[:-1] > 0)",
        ),
    ),
    planned(
        "in many cells at once ends are chosen at the rate of answers",
        _CELLS,
        (
            "mechanisms/quantiles.py",
            "single = SingleLevel(ends, self._rate(self._round_epsilon, self.levels[0]), self._joint_rate)",
            "single = SingleLevel(ends, *[self._rate(self._round_epsilon, self.levels[0])] * 2)",
        ),
    ),
    planned(
        "a cell that floats leave open is taken as they say",
        _CELLS,
        (
            "mechanisms/quantile_cells.py",
            "for cell in np.flatnonzero(~certain).tolist():",
            "for cell in np.flatnonzero(~certain & certain).tolist():",
        ),
    ),
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
