"""Bugs of arrays, error bars as values and the order of joins to plant: wrong rows, wrong ends, other bounds."""

from tests.planted.bug import Bug, planned

_ENDS = "tests/paths/test_interval_functions.py"
_ARRAYS = "tests/query/test_client_spellings.py"
_ORDER = "tests/paths/test_join_order.py"

GRAMMAR2_BUGS: tuple[Bug, ...] = (
    planned(
        "ends in a condition hold one by one",
        _ENDS,
        (
            "release/intervals/confidence.py",
            "        level = 1 - (1 - LEVEL) / rows if together and rows else LEVEL\n",
            "        level = LEVEL\n",
        ),
    ),
    planned(
        "ends do not count as noise where they choose rows",
        _ENDS,
        (
            "release/intervals/propagation.py",
            "    return replace(table, forms={**table.forms, **ends}) if ends else table\n",
            "    return replace(table, exact={**table.exact, **{name: [0] * table.rows for name in ends}})\n",
        ),
    ),
    planned(
        "an error bar is asked of people's rows",
        _ENDS,
        (
            "query/interval_calls.py",
            "    if any(has_private_rows(source, catalog) for source in sources):\n",
            "    if False:\n",
        ),
        (
            "query/interval_calls.py",
            "    public = not any(reads_private_tables(source, catalog) for source in sources)\n",
            "    public = any(has_private_rows(source, catalog) for source in sources)\n",
        ),
    ),
    planned(
        "a low end is shown for a high one",
        _ENDS,
        (
            "release/intervals/confidence.py",
            "        return low if side is IntervalSide.LOW else high\n",
            "        return low\n",
        ),
    ),
    planned(
        "the members of an array that are NULL are left out",
        _ARRAYS,
        (
            "query/parsing/membership.py",
            "    _check_size(len(members), where)\n    return members\n",
            "    return [one for one in members if not (isinstance(one, Literal) and one.value is None)]\n",
        ),
    ),
    planned(
        "the order of FROM decides about joins",
        _ORDER,
        (
            "analysis/join_order.py",
            "    ordered = sorted(leaves, key=lambda leaf: str(number_labels(leaf)))\n",
            "    ordered = leaves\n",
        ),
    ),
    planned(
        "conditions between joined tables are lost",
        _ORDER,
        (
            "analysis/join_order.py",
            "    return Filter(joined.relation, conjunction(joined.left)) if joined.left else None\n",
            "    return None\n",
        ),
    ),
)
