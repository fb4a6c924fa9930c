"""Bugs of tables whose rows have two owners: in the copy, the statement, the flow, the price and the refusals."""

from tests.planted.bug import Bug, planned
from tests.planted.two_owners_bugs import CUT_ONE_BY_ONE

_ENGINE = "tests/engines/test_two_owners.py"
_PATH = "tests/paths/test_two_owners.py"
_REFUSED = "tests/paths/test_two_owners_refused.py"
_NUMBERED = "        source = f\"{build.stage(f'pairs{at}')} AS p JOIN {build.stage('numbers')} AS n ON p.u = n.u\"\n"
_APART = "(SELECT u, row_number() OVER (ORDER BY u) AS n FROM {build.stage(f'pairs{at}')} GROUP BY u)"

OWNERS_BUGS: tuple[Bug, ...] = (
    planned(
        "asked rows of two owners are cut one owner after the other",
        _PATH,
        CUT_ONE_BY_ONE,
    ),
    planned(
        "only the first owner's share is bounded",
        _PATH,
        (
            "sensitivity/bounded_flow.py",
            "    full = shares > bound\n",
            "    full = shares > bound\n    full[ends[1]] = False\n",
        ),
    ),
    planned(
        "the double cover is not halved",
        _PATH,
        (
            "release/aggregates/bounded_flow.py",
            "    return np.asarray((_released(made, measured)[:, 1] + 1) // 2)\n",
            "    return np.asarray(_released(made, measured)[:, 1])\n",
        ),
    ),
    planned(
        "rows without an owner are in answers",
        _ENGINE,
        (
            "engines/sql/two_owners.py",
            '    both = [f"{quoted(name)} IS NOT NULL" for name in OWNERS]\n',
            '    both = ["TRUE"]\n',
        ),
        (
            "engines/sql/two_owners.py",
            '    owners = [f"o{at}.n AS {quoted(name)}" for at, name in enumerate(OWNERS)]\n',
            '    owners = [f"coalesce(o{at}.n, 0) AS {quoted(name)}" for at, name in enumerate(OWNERS)]\n',
        ),
    ),
    planned(
        "a condition chooses pairs, not rows",
        _ENGINE,
        (
            "engines/sql/flow_pairs.py",
            "    return select(listed, rows, where=tests, group_by=[*keys, *ends])\n",
            '    having = " AND ".join(f"bool_or({test})" for test in tests)\n'
            "    return select(listed, rows, group_by=[*keys, *ends], having=having)\n",
        ),
        (
            "engines/sql/flow_pairs.py",
            '    columns |= {} if quantity.where is None else {"w": quantity.where}\n',
            '    columns |= {} if quantity.where is None else {"w": quantity.where}\n'
            "    node, tests = plan.group.rows, [] if quantity.where is None else ['w']\n"
            "    if isinstance(node, FilterNode):\n"
            "        columns['f'] = node.condition\n"
            "        tests.append('f')\n"
            "        plan = replace(plan, group=replace(plan.group, rows=node.source))\n",
        ),
        (
            "engines/sql/flow_pairs.py",
            '    tests = [] if quantity.where is None else ["w"]\n',
            "",
        ),
        (
            "engines/sql/flow_pairs.py",
            "import numpy as np\n",
            "from dataclasses import replace\n\nimport numpy as np\n\n"
            "from sfumato.language.rel_nodes import FilterNode\n",
        ),
    ),
    planned(
        "owners of one kind are numbered apart",
        _ENGINE,
        ("engines/sql/two_owners.py", _NUMBERED, _NUMBERED.replace("{build.stage('numbers')}", _APART)),
    ),
    planned(
        "owners of two kinds are numbered apart, so that their numbers say nothing when they are compared",
        _ENGINE,
        (
            "engines/sql/two_owners.py",
            _NUMBERED,
            "        numbers = build.stage('numbers')\n"
            "        if pair.kinds is not None:\n"
            f'            numbers = f"{_APART}"\n' + _NUMBERED.replace("{build.stage('numbers')}", "{numbers}"),
        ),
    ),
    planned(
        "a buyer found by a path and a seller of the same id are two people",
        _PATH,
        (
            "policy/policy.py",
            "        return self.kinds is not None and not any(isinstance(owner, UnitPath) for owner in self.owners)\n",
            "        return self.kinds is not None\n",
        ),
    ),
    planned(
        "every group of two owners' rows costs as much as one",
        _PATH,
        (
            "mechanisms/bounded_flow.py",
            "        return self.epsilon / self.cells\n",
            "        return self.epsilon\n",
        ),
        (
            "mechanisms/bounded_flow.py",
            "        return one if self.cells == 1 else Repeated(one, self.cells)\n",
            "        return one\n",
        ),
    ),
    planned(
        "a join repeats rows of two owners",
        _REFUSED,
        (
            "analysis/two_owners.py",
            "    if not isinstance(owned, UnitLineage) or owned.rows != 1:\n",
            "    if not isinstance(owned, UnitLineage):\n",
        ),
    ),
    planned(
        "rows of two owners are scanned like rows of one person",
        _REFUSED,
        (
            "analysis/analyse.py",
            "            if not reading.reads_pairs:\n",
            "            if reading.reads_pairs is None:\n",
        ),
    ),
    planned(
        "a sum of two owners' rows takes negative values",
        _REFUSED,
        (
            "analysis/two_owners.py",
            "        if facts.kind is not Kind.INTEGER or not facts.bounded or facts.low < 0:\n",
            "        if facts.kind is not Kind.INTEGER or not facts.bounded:\n",
        ),
    ),
)
