"""Bugs to plant again: workloads whose split, margins or bars say more than was measured."""

from tests.planted.bug import Bug, planned

_LARGE = "tests/release/test_large_marginals.py"
_SPLIT = "tests/planning/test_marginal_budget_split.py"
_MARGINS = "tests/paths/test_workload_margins.py"
_BLOCKS = "tests/paths/test_ordered_sums.py"
_TREES = "tests/release/test_block_trees.py"
_PIECES = "tests/paths/test_range_questions.py"
_BLOCK_SHARES = "tests/planning/test_range_strategies.py"

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
    planned(
        "blocks of an ordered key are not charged",
        _BLOCKS,
        (
            "planning/planner.py",
            "        Plan(private, groups, loss, event_of(groups), ways.tables, hierarchies=ways.hierarchies)\n",
            "        Plan(private, groups, loss, event_of(groups[: len(private.groups)]), ways.tables, "
            "hierarchies=ways.hierarchies)\n",
        ),
    ),
    planned(
        "a person has one row in all blocks",
        _BLOCKS,
        (
            "planning/hierarchies.py",
            "    return replace(whole, contribution=replace(group.contribution, groups=touched))\n",
            "    return replace(whole, contribution=replace(group.contribution, rows=1, groups=1))\n",
        ),
    ),
    planned(
        "a sum over blocks has the noise of its cells alone",
        _TREES,
        (
            "release/block_trees.py",
            "                total += moments[power + times > 2] * (first**power * second**times).sum(axis=1)\n",
            "                total += moments[power + times > 2] * (first**power * second**times).sum(axis=1) "
            "* (level == 0)\n",
        ),
    ),
    planned(
        "blocks take from single cells what they need",
        _BLOCK_SHARES,
        (
            "planning/range_strategies.py",
            " if OrderedSum(SumKind.CELLS) in sums else 0.0\n",
            " if not sums else 0.0\n",
        ),
    ),
    planned(
        "a range lacks its last piece",
        _PIECES,
        (
            "planning/range_questions.py",
            "            sums[one.asked.name] = name, places[one.low], places[one.high + 1] - 1\n",
            "            sums[one.asked.name] = name, places[one.low], places[one.high + 1] - 2\n",
        ),
    ),
)
