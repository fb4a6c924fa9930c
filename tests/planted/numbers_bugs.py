"""Bugs of counts of different values, of groups per person, and of vectors of nested conditions."""

from tests.planted.bug import Bug, planned

_GROUPS = "tests/paths/test_chosen_groups.py"
_STEPS = "tests/planning/test_nested_conditions.py"
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
    planned(
        "rows of an inner condition are also in the step around it",
        _STEPS,
        (
            "planning/nested_conditions.py",
            "where=_all((*conjuncts(one.quantity.where), *outside)))",
            "where=one.quantity.where if outside else None)",
        ),
    ),
    planned(
        "what overlaps is taken to be inside",
        _STEPS,
        (
            "planning/disjoint_conditions.py",
            "        below = other.low is None or (self.low is not None and self.low >= other.low)\n",
            "        below = other.low is None or self.low is not None\n",
        ),
    ),
    planned(
        "the error bar of a sum of steps is that of one step",
        _STEPS,
        (
            "release/marginal_consistency.py",
            "    others = tuple((name, cells, weights) for name,",
            "    others = tuple((name, cells, weights / len(merged) ** 0.5) for name,",
        ),
    ),
    planned(
        "people who lost few rows are counted beside sums that keep their whole unit",
        "tests/planning/test_truncation_plan.py",
        (
            "planning/bounding/truncation.py",
            "    shared = Fraction(_PEOPLE_UNIT, _PEOPLE_UNIT - len(rows))\n",
            "    shared = Fraction(1)\n",
        ),
    ),
    planned(
        "what an earlier version published is read with the noise of this one",
        "tests/paths/test_truncation_charges.py",
        ("dataset.py", "if has_published(plan, noisy)", "if plan is not None"),
    ),
)
