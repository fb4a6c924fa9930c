"""Bugs of a count beside an average: parts that nobody pays for, overlapping parts, and noise read as other noise."""

from tests.planted.bug import Bug, planned

_LAWS = "tests/planning/test_null_counts.py"
_SMALL = f"{_LAWS}::test_no_small_change_costs_more_than_the_event"

BESIDE_BUGS: tuple[Bug, ...] = (
    planned(
        "a Gaussian vector is charged for its smallest part",
        _SMALL,
        (
            "planning/plan.py",
            "min(one.sigma_squared * least / one.sensitivity_squared for one in vector)",
            "max(one.sigma_squared for one in vector)",
        ),
    ),
    planned(
        "the noise of a null count is for one row of a person",
        _SMALL,
        (
            "planning/noise.py",
            "            yield each, Laplace(each.sensitivity.l1, each.sensitivity.l1 / epsilon, neighbours)\n",
            "            yield each, Laplace(each.sensitivity.l1, (each.side or 1) / epsilon, neighbours)\n",
        ),
    ),
    planned(
        "a sum without its share of a vector's sensitivity",
        _SMALL,
        (
            "planning/noise.py",
            "joint = MaxNorm(tuple(each.side or 1 for each in part), need.moved_rows, epsilon,",
            "joint = MaxNorm(tuple(1 for each in part), need.moved_rows, epsilon,",
        ),
    ),
    planned(
        "what the same rows move is a vector under Gaussian noise",
        _SMALL,
        (
            "planning/budget_split.py",
            "found = () if need.together else vector_of(need)",
            "found = vector_of(need)",
        ),
    ),
    planned(
        "rows with a value are in the null count",
        f"{_LAWS}::test_counts_and_sums_are_what_they_are_when_measured_apart",
        (
            "planning/null_counts.py",
            "absent = present(self.value).arguments[0]",
            "absent = present(self.value)",
        ),
    ),
    planned(
        "a null count is added where it is taken away",
        f"{_LAWS}::test_bars_hold_and_are_not_far_too_long",
        (
            "release/marginal_consistency.py",
            "sign * int(value) for value in one.values",
            "int(value) for value in one.values",
        ),
    ),
    planned(
        "the noise of a refined vector is told as that of the whole answer",
        f"{_LAWS}::test_gaussian_noise_is_refined_for_the_difference",
        (
            "stored_answer.py",
            "    vectors = any(isinstance(event, Concentrated) for event in events)\n",
            "    vectors = False\n",
        ),
    ),
    planned(
        "a removed row is missing in one of two counts that both hold it",
        f"{_LAWS}::test_bars_with_bias_hold_where_a_removed_row_is_in_both_counts",
        (
            "release/intervals/measured_cells.py",
            "() if one.signs else one.steps) for group",
            "one.steps) for group",
        ),
    ),
    planned(
        "a row that left one step for another is counted once",
        "tests/planning/test_nested_conditions.py"
        "::test_bars_with_bias_hold_where_rows_are_in_another_step_than_they_seem",
        (
            "release/bounding/bias.py",
            "        up += too_little + beyond\n",
            "        up += np.maximum(too_little, beyond)\n",
        ),
    ),
)
