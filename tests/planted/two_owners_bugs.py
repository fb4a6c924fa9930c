"""Bugs of rows with two owners: shares that others' absence frees."""

from tests.planted.bug import Bug, planned

_FLOW = "tests/sensitivity/test_bounded_flow.py"
CUT_ONE_BY_ONE = (
    "sensitivity/bounded_flow.py",
    "    flow = maximum_flow(graph, source, sink).flow\n",
    "    total, left_room, right_room = 0, room.copy(), room.copy()\n"
    "    for giver, taker, amount in zip(left, right, amounts, strict=True):\n"
    "        share = min(amount, left_room[giver], right_room[taker])\n"
    "        left_room[giver] -= share\n"
    "        right_room[taker] -= share\n"
    "        total += int(share)\n"
    "    return total\n"
    "    flow = maximum_flow(graph, source, sink).flow\n",
)
"""Rows are cut one after the other instead of by a flow."""

TWO_OWNERS_BUGS: tuple[Bug, ...] = (
    planned(
        "rows of two owners are cut one owner after the other",
        _FLOW,
        CUT_ONE_BY_ONE,
    ),
    planned(
        "a total of two owners' rows gets noise for half of its bound",
        _FLOW,
        ("mechanisms/bounded_flow.py", "        distance = 2 * bound\n", "        distance = bound\n"),
    ),
    planned(
        "bounds of two owners' rows are compared in units of the smaller one",
        _FLOW,
        ("mechanisms/bounded_flow.py", "(2 * max(bound, other))", "(2 * min(bound, other))"),
    ),
)
