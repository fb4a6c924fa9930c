"""Bugs of values outside their bounds to plant: a key or condition that takes them for values inside."""

from tests.planted.bug import Bug, planned

_OUTSIDE = "tests/paths/test_outside_bounds.py"

OUTSIDE_BUGS: tuple[Bug, ...] = (
    planned(
        "a value outside its bounds is in the group at the bound",
        _OUTSIDE,
        (
            "language/outside.py",
            "        return Scalar(Operator.WITHIN, (stored(scalar),), _without_outside(scalar), Sides(low, high))\n",
            "        return scalar\n",
        ),
        (
            "planning/outside_cells.py",
            "        return replace(key, scalar=stored(leaf), has_remainder=True, null_is_apart=leaf.facts.nullable)\n",
            "        return key\n",
        ),
    ),
    planned(
        "a condition sees the clipped value",
        _OUTSIDE,
        ("language/lowering.py", "        arguments = compared(arguments)\n", "        pass\n"),
    ),
    planned(
        "a subquery passes on the clipped value",
        _OUTSIDE,
        ("engines/sql/flow.py", "stored(scalar) if is_stored(scalar) else scalar", "scalar"),
    ),
    planned(
        "a running total adds what lies outside bounds",
        "tests/engines/test_truncation_losses.py",
        (
            "engines/sql/column.py",
            '    return f"CASE WHEN {sql} < {low} THEN {low} WHEN {sql} > {high} THEN {high} ELSE {sql} END"\n',
            "    return sql\n",
        ),
    ),
)
