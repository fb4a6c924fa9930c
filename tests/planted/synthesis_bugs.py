"""Bugs of synthetic tables to plant: rounds that spend more than was declared, scores that one person moves further."""

from tests.planted.bug import Bug, planned

_ROUNDS = "tests/synthesis/test_selecting.py"

SYNTHESIS_BUGS: tuple[Bug, ...] = (
    planned(
        "a dearer round of a selection is paid as a cheap one",
        _ROUNDS,
        (
            "synthesis/selecting.py",
            "        left -= rho\n",
            "        left -= min(rho, selection.rho / selection.rounds)\n",
        ),
    ),
    planned(
        "a round of a selection takes more than is left",
        _ROUNDS,
        (
            "synthesis/selecting.py",
            "            rho, next_refresh = min(PRICE_FACTOR * rho, left), rounds\n",
            "            rho, next_refresh = PRICE_FACTOR * rho, rounds\n",
        ),
        (
            "synthesis/selecting.py",
            "        rho = left if left < 2 * rho else rho  # the last round takes what is left\n",
            "        rho = left if rho <= left < 2 * rho else rho\n",
        ),
    ),
    planned(
        "the choice of a round has the price of its measurement",
        _ROUNDS,
        ("synthesis/selecting.py", "isqrt(int(8 * CHOOSING_SHARE * rho", "isqrt(int(8 * (1 - CHOOSING_SHARE) * rho"),
    ),
    planned(
        "a round measures with the noise of one row per person",
        _ROUNDS,
        ("synthesis/selecting.py", "round_up_variance(self.squared / (2 *", "round_up_variance(1 / (2 *"),
    ),
    planned(
        "one row moves the score of a pair by more than one",
        _ROUNDS,
        (
            "synthesis/selecting.py",
            "    return int(np.abs(exact - rounded).sum())\n",
            "    return int(((exact - rounded) ** 2).sum())\n",
        ),
    ),
    planned(
        "cells of a number are counted from 0 and not from its low end",
        "tests/synthesis/test_cells.py",
        ("synthesis/declared.py", "shifted(steps, column.least)", "shifted(steps, -column.least)"),
    ),
    planned(
        "NULL is in the cell of the least value",
        "tests/synthesis/test_nulls.py",
        (
            "synthesis/declared.py",
            '    return f"CASE WHEN {name} IS NULL THEN {above} ELSE {held} END"\n',
            '    return f"CASE WHEN {name} IS NULL THEN {low} ELSE {held} END"\n',
        ),
    ),
    planned(
        "a row with a value that was not declared is in the cell of NULL",
        "tests/synthesis/test_nulls.py",
        (
            "synthesis/domain.py",
            "        return np.where(missing, self.present.size, self.present.codes(values))\n",
            "        found = self.present.codes(values)\n"
            "        return np.where(found < 0, self.present.size, found)\n",
        ),
    ),
    planned(
        "finer histograms of a synthetic table are not paid for",
        "tests/synthesis/test_positions.py",
        (
            "synthesis/design.py",
            "_gaussians(moved, found, neighbours), found[-1]",
            "_gaussians(moved, measured, neighbours), found[-1]",
        ),
    ),
    planned(
        "rounds of a selection spend what finer histograms spent",
        "tests/synthesis/test_positions.py",
        ("synthesis/selecting.py", "paired = (1 - POSITIONS_SHARE) * rho if fine else rho", "paired = rho"),
    ),
    planned(
        "several finer histograms have the noise of one",
        "tests/synthesis/test_positions.py",
        ("synthesis/selecting.py", "round_up_variance(squared * fine / (2", "round_up_variance(squared / (2"),
    ),
    planned(
        "rounds fail where noise is so large that a float has no digit left for a total",
        "tests/synthesis/test_selecting.py",
        ("synthesis/combining.py", "int(kept[-1]) if len(kept) else 0", "int(kept[-1])"),
    ),
)
