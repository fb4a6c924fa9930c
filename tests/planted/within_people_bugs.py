"""Bugs of subqueries that stay within one person: rows that are counted too few times."""

from tests.planted.bug import Bug, planned

_WITHIN = "tests/paths/test_within_people.py"

WITHIN_PEOPLE_BUGS: tuple[Bug, ...] = (
    planned(
        "a join by a part of a key is taken to multiply nothing",
        _WITHIN,
        (
            "analysis/joins.py",
            "    return all(key.name in named or is_unit_id(key.scalar) for key in analysed.flow.keys)\n",
            "    return any(key.name in named for key in analysed.flow.keys)\n",
        ),
    ),
)
