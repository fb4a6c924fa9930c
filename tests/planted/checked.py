"""Bugs in code that Rocq's executable definitions answer for: the kept cases have to notice each."""

from tests.planted.bug import planned

_LAW = "tests/proofs/test_conformance.py"

CHECKED = (
    planned(
        "the filter lets one more charge through",
        _LAW,
        ("accounting/filter.py", "self.pure <= self.budget.epsilon)", "self.pure <= self.budget.epsilon * 2)"),
    ),
    planned(
        "of equal rows all have the draw of the first",
        _LAW,
        ("engines/sql/sampling_order.py", "CASE WHEN {nth} = 1 THEN {first}", "CASE WHEN {nth} > 0 THEN {first}"),
    ),
    planned(
        "a fraction halfway between two steps goes up",
        _LAW,
        (
            "sensitivity/clipping.py",
            "(2 * rest == denominator and quotient % 2 == 1)",
            "(2 * rest == denominator and quotient % 2 < 2)",
        ),
    ),
    planned(
        "people serve one value more than the limit",
        _LAW,
        ("sensitivity/matching.py", "free = (degrees <= room)[people]", "free = (degrees <= room + 1)[people]"),
    ),
)
