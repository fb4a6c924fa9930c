"""Bugs to plant again: work and memory of planning without a bound, and lots that are drawn row by row."""

from tests.planted.bug import Bug, planned

_EFFORT = "tests/paths/test_planning_effort.py"
_CACHES = "tests/test_caches.py"

PLANNING_BUGS: tuple[Bug, ...] = (
    planned(
        "each statement computes what all others measure",
        _EFFORT,
        (
            "engines/sql/group.py",
            "    alone = replace(plan, measured=(), chosen=(one,))\n",
            "    alone = plan\n",
        ),
    ),
    planned(
        "statements of a plan have no limit together",
        _EFFORT,
        ("engines/sql/statements.py", "        if self._chars > MAX_PLAN_CHARS:\n", "        if False:\n"),
    ),
    planned(
        "remembered questions have no limit of bytes",
        _CACHES,
        (
            "caches.py",
            "            while self._bytes.get(owner, 0) + size > self._max_owner_bytes:\n",
            "            while False:\n",
        ),
    ),
    planned(
        "a cache counts what it holds too small",
        _CACHES,
        ("caches.py", "        waiting = get_referents(*found.values())\n", "        waiting = []\n"),
    ),
    planned(
        "lots of several rows per person are drawn row by row",
        "tests/learn/test_models.py::test_several_rows_per_person_need_the_person_of_each_row",
        ("learn/arrays.py", "    if groups is None and metadata.rows_per_person > 1:\n", "    if False:\n"),
    ),
)
