"""Bugs of error bars to plant: intervals that hold the truth less often than they say, or that cannot be computed."""

from tests.planted.bug import Bug, planned

_TOTAL = "tests/release/test_total_bars.py"
_CHOSEN = "tests/statistical/test_chosen_rows.py"
_ONE_CHOICE = "tests/paths/test_one_choice.py"
_DISTINCT = "tests/paths/test_distinct.py"

BARS_BUGS: tuple[Bug, ...] = (
    planned(
        "a part of an exact part has no form",
        _TOTAL,
        (
            "release/intervals/row_forms.py",
            "        if not self.noisy(scalar):  # a part of an exact part\n"
            "            return self._computed([scalar])[0]\n",
            "",
        ),
        (
            "release/intervals/row_forms.py",
            "_is_null_for_zero(divisor) and self.noisy(divisor)",
            "_is_null_for_zero(divisor)",
        ),
    ),
    planned(
        "a bar that fails loses the answer",
        _TOTAL,
        ("release/intervals/unforeseen.py", "    except Exception as failure:\n", "    except OpenBar as failure:\n"),
    ),
    planned(
        "the parts of a number choose their levels apart",
        _ONE_CHOICE,
        (
            "planning/bounding/selection.py",
            "argument.operator in _STRICT and argument.facts.kind is Kind.INTEGER and parts",
            "argument.operator is Operator.NEGATE and parts",
        ),
    ),
    planned(
        "bars with what bounds removed do not know of selection",
        _TOTAL,
        (
            "release/bounding/bias.py",
            "    (low, high), (down, up) = form.measured_bar(tail), _widths(form, cut)\n",
            "    low, high = form.centre - form.margin(tail), form.centre + form.margin(tail)\n"
            "    down, up = _widths(form, cut)\n",
        ),
        (
            "release/bounding/bias.py",
            "return None if one is None else (_outer(one[0], other[0], min), _outer(one[1], other[1], max))",
            "return None if one is None else other",
        ),
    ),
    planned(
        "values that one person alone has are in no bar",
        _DISTINCT,
        (
            "release/aggregates/distinct_count.py",
            "reach + mechanism.unserved(index, 1 - chosen) if chosen else reach",
            "reach",
        ),
    ),
    planned(
        "rows that noise chose have the bars of one row",
        _CHOSEN,
        ("release/intervals/confidence.py", "return (1 - level) / self.candidates", "return 1 - level"),
    ),
)
