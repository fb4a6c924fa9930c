"""Bugs of keys that are selected under Rényi losses, also in rounds: probabilities, events and prices."""

from tests.planted.bug import Bug, planned

_TABLE = "tests/mechanisms/test_renyi_selection.py"
_PLANS = "tests/planning/test_renyi_keys.py"
_ROUNDS = "tests/planning/test_key_rounds.py"
_MECHANISM = "mechanisms/renyi_selection.py"
_PLANNING = "planning/renyi_keys.py"

SELECTION_BUGS: tuple[Bug, ...] = (
    planned(
        "the losses of a selection are those of each key, not of all keys of a person",
        _TABLE,
        (_MECHANISM, "tuple(loss / self.touched for loss in self.losses)", "tuple(loss / 1 for loss in self.losses)"),
    ),
    planned(
        "keys of one person alone have delta each",
        _TABLE,
        (_MECHANISM, "return share_of_delta(self.delta, self.touched)", "return self.delta"),
    ),
    planned(
        "a Rényi loss is looked at in one direction",
        _TABLE,
        (_MECHANISM, "        return max(ahead, back)\n", "        return ahead\n"),
    ),
    planned(
        "floats decide how often a key is kept",
        _TABLE,
        (_MECHANISM, "        if pair.holds(limits):\n", "        if proposed * (1 + 1e-5) and was_kept:\n"),
        (_MECHANISM, "_FIRST_RETREAT, _MAX_RETREATS = 1e-11, 12", "_FIRST_RETREAT, _MAX_RETREATS = -1e-5, 12"),
    ),
    planned(
        "the pure loss of a selection leaves out the keys that are missing",
        _TABLE,
        (
            _MECHANISM,
            "max(Fraction(self.kept, self.was_kept), Fraction(was_dropped, dropped))",
            "max(Fraction(self.kept, self.was_kept), min(Fraction(1), Fraction(was_dropped, dropped)))",
        ),
    ),
    planned(
        "an event knows a selection by one key",
        _TABLE,
        (
            _MECHANISM,
            "Approximate(decision if self.touched == 1 else Repeated(decision, self.touched), self.delta)",
            "Approximate(decision, self.delta)",
        ),
    ),
    planned(
        "half of a word decides whether a key is kept",
        _TABLE,
        (_MECHANISM, "(words[:, 0] < high) | ((words[:, 0] == high) & (words[:, 1] < low))", "(words[:, 0] <= high)"),
    ),
    planned(
        "a selection under Rényi losses spends delta twice",
        _PLANS,
        (_PLANNING, "            selection.delta / 2,\n", "            selection.delta,\n"),
    ),
    planned(
        "a selection under Rényi losses costs what a budget has",
        _PLANS,
        (
            _PLANNING,
            "min(Fraction(1), fraction_of_fresh_budget(noise, cap)) * budget.capacity",
            "Fraction(budget.capacity)",
        ),
    ),
    planned(
        "each round costs what one selection costs",
        _ROUNDS,
        (
            _PLANNING,
            "ROUND_SHARES = (Fraction(1, 10), Fraction(9, 10))",
            "ROUND_SHARES = (Fraction(1, 10), Fraction(1))",
        ),
    ),
    planned(
        "each round fails with the delta of all",
        _ROUNDS,
        (_PLANNING, "delta=share * selection.delta", "delta=selection.delta"),
    ),
    planned(
        "an event knows the last round alone",
        _ROUNDS,
        (
            "mechanisms/key_rounds.py",
            "Composed(tuple(one.event for one in self.rounds))",
            "Composed((self.rounds[-1].event,))",
        ),
    ),
    planned(
        "a later round counts people in all keys that were not found",
        "tests/paths/test_key_rounds.py",
        (
            "release/key_rounds.py",
            "    return replace(group, group=replace(group.group, rows=rows))\n",
            "    unbounded = replace(group.group.contribution, bound_groups=False)\n"
            "    return replace(group, group=replace(group.group, rows=rows, contribution=unbounded))\n",
        ),
    ),
    planned(
        "a later round is charged and never read",
        "tests/paths/test_key_rounds.py",
        (
            "release/key_rounds.py",
            "for later in _later_rounds(group):\n            more",
            "for later in []:\n            more",
        ),
    ),
    planned(
        "a loss above the orders that are known is that of the last one",
        "tests/accounting/test_renyi_bounded.py",
        (
            "accounting/release_event.py",
            "moment = most + (order - last) * self.epsilon",
            "moment = (order - 1) * self.losses[-1]",
        ),
    ),
)
