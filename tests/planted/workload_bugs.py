"""Bugs to plant again: workloads whose split, margins or bars say more than was measured."""

from tests.planted.bug import Bug, planned

_LARGE = "tests/release/test_large_marginals.py"
_SPLIT = "tests/planning/test_marginal_budget_split.py"
_MARGINS = "tests/paths/test_workload_margins.py"

WORKLOAD_BUGS: tuple[Bug, ...] = (
    planned(
        "a weight that does not count to the price",
        _SPLIT,
        (
            "planning/budget_split.py",
            "    return tuple(Fraction(part, sum(parts)) for part in parts)\n",
            "    return tuple(Fraction(part, max(parts)) for part in parts)\n",
        ),
    ),
    planned(
        "rounding of shares may leave the tenth behind",
        _SPLIT,
        (
            "planning/marginal_budget_split.py",
            "            if part == 1 or all(bool((variances <= self.limit).all()) for variances in tried):\n",
            "            if part == 0:\n",
        ),
    ),
    planned(
        "a margin of a workload counts what coarser tables say twice",
        _MARGINS,
        (
            "planning/workload_margins.py",
            "            found[name] = 0.5 + reach * float(variance + 1 / 12) ** 0.5\n",
            "            found[name] = 0.5 + reach * float(variance / 2 + 1 / 12) ** 0.5\n",
        ),
    ),
    planned(
        "cells of a large table err alone",
        _LARGE,
        (
            "release/large_marginals.py",
            "            centred = _centred(spread.reshape(size, *shape), first=1)\n",
            "            centred = spread.reshape(size, *shape)\n",
        ),
    ),
    planned(
        "the bar of a large table forgets the coarser residuals",
        _LARGE,
        (
            "release/large_marginals.py",
            "                for part in _subsets(axes)\n            )\n        )\n",
            "                for part in _subsets(axes)[1:]\n            )\n        )\n",
        ),
    ),
    planned(
        "what was answered without the common table is charged again",
        _LARGE,
        (
            "planning/ways.py",
            "        return (*self._large, *found)\n",
            "        return self._large or found\n",
        ),
    ),
)
