"""Bugs of vectors: conditions that a row can meet together are taken to exclude each other."""

from tests.planted.bug import Bug, planned

_VECTORS = "tests/planning/test_disjoint_conditions.py"

VECTOR_BUGS: tuple[Bug, ...] = (
    planned(
        "conditions that share a value are taken to exclude each other",
        _VECTORS,
        (
            "planning/disjoint_conditions.py",
            "    return low is not None and high is not None and low > high\n",
            "    return low is not None and high is not None and low >= high\n",
        ),
    ),
    planned(
        "a value that a CASE adds otherwise is taken for none",
        _VECTORS,
        (
            "planning/disjoint_conditions.py",
            "            nothing = otherwise.operator is Operator.CONSTANT and otherwise.constant == 0\n",
            "            nothing = otherwise.operator is Operator.CONSTANT\n",
        ),
    ),
)
