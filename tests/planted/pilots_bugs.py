"""Bugs of pilot measurements: parts that nobody pays for, and answers that were chosen by their own noise."""

from tests.planted.bug import Bug, planned

_PILOTS = "tests/paths/test_pilots.py"

PILOTS_BUGS: tuple[Bug, ...] = (
    planned(
        "the pilots of a margin do not count towards the most that was quoted",
        _PILOTS,
        ("pilots.py", "goal = replace(goal, paid=goal.paid + cost)", "goal = replace(goal, paid=goal.paid)"),
    ),
    planned(
        "a pilot that looks good is the answer",
        _PILOTS,
        ("pilots.py", "_fresh_answer(search, found.price, costs, finder)", "search.prepared_at(cost)"),
    ),
    planned(
        "a margin is said to be reached where its interval is open",
        _PILOTS,
        (
            "pilots.py",
            "missed = {target: [ratio for ratio in ratios if not ratio <= 1]",
            "missed = {target: [ratio for ratio in ratios if 1 < ratio < inf]",
        ),
    ),
    planned(
        "an answer by pilots is combined with the pilots that set its price",
        _PILOTS,
        (
            "pilots.py",
            "answer = replace(answer, paid=_is_paid(answer, finder))",
            "answer = from_views(answer, finder)",
        ),
        ("pilots.py", "from sfumato.views import ViewFinder", "from sfumato.views import ViewFinder, from_views"),
    ),
)
