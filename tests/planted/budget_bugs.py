"""Bugs of the budget to plant: a bound of what was answered that does not hold."""

from tests.planted.bug import Bug, planned

_ODOMETER = "tests/accounting/test_odometer.py"
_FILTER = "accounting/filter.py"
_RENYI_BOUND = (
    "bounds.append(max(budget.epsilon + Fraction(int(renyi) - capacity, RENYI_UNITS), _own_unit(budget, renyi)))"
)

BUDGET_BUGS: tuple[Bug, ...] = (
    planned(
        "spent is the used share times epsilon",
        _ODOMETER,
        (_FILTER, _RENYI_BOUND, "bounds.append(_own_unit(budget, renyi))"),
    ),
    planned(
        "spent is the Rényi loss, not converted",
        _ODOMETER,
        (_FILTER, _RENYI_BOUND, "bounds.append(Fraction(int(renyi), RENYI_UNITS))"),
    ),
    planned(
        "an analyst has spent more than the dataset",
        _ODOMETER,
        (
            "ledger/caps.py",
            "    return (name,) if DATASET in state.windows else (name, DATASET)  # proofs/odometer.md, 5\n",
            "    return (name,)\n",
        ),
    ),
)
