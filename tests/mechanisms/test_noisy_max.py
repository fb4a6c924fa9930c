"""Report noisy max and top-k: exact laws, tight prices, ties, and sums that never wrap."""

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mpf, tanh, workdps
from scipy.stats import chisquare
from tests.laws.case import Case
from tests.laws.choosing import CASES, noisy_max_law, real
from tests.sources import HashSource, ScriptedSource

from sfumato.accounting.event import Neighbours, Pure, Repeated
from sfumato.errors import Refusal
from sfumato.mechanisms.choice import add_score_noise
from sfumato.mechanisms.noisy_max import NoisyMax, NoisyTop

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
MINE = [case for case in CASES if isinstance(case.mechanism, NoisyMax | NoisyTop)]


@pytest.mark.parametrize("case", MINE, ids=str)
def test_frequencies_fit_the_exact_law_with_error_rate_one_in_a_million(case: Case) -> None:
    scores, source, draws = case.pairs[0][0], HashSource(case.name), 4000
    law = case.law(scores)
    found: Counter[Any] = Counter()
    for _ in range(draws):
        chosen = case.mechanism.release(scores, source)
        found[chosen if isinstance(chosen, int) else tuple(chosen.tolist())] += 1
    assert set(found) <= set(law)
    likely = [outcome for outcome in law if law[outcome] * draws >= 5]
    counted = [found[outcome] for outcome in likely]
    expected = [float(law[outcome]) * draws for outcome in likely]
    rest = draws - sum(counted), draws - sum(expected)
    if rest[1] > 1e-6:
        counted, expected = [*counted, rest[0]], [*expected, rest[1]]
    if len(likely) > 1:
        assert chisquare(counted, np.array(expected) * draws / sum(expected)).pvalue > 1e-6


def test_ties_go_to_the_lowest_index() -> None:
    # with all bits zero every candidate draws the same noise
    assert NoisyMax(1, Fraction(1), ADD).release([4, 4, 4], ScriptedSource(b"", b"\x00")) == 0


def test_the_law_of_two_equal_candidates_favours_the_first_by_the_chance_of_a_tie() -> None:
    law = noisy_max_law((0, 0), Fraction(1))
    with workdps(60):
        assert abs((law[0] - law[1]) - tanh(mpf(1) / 2)) < mpf(10) ** -40  # (1 - x) / (1 + x), x = 1/e


@pytest.mark.parametrize("candidates", [2, 3, 5])
@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(9, 10), Fraction(999, 1000)], ids=str)
def test_the_margin_covers_the_worst_scores_and_is_at_most_one_too_large(candidates: int, confidence: Fraction) -> None:
    mechanism = NoisyMax(1, Fraction(1), REPLACE)
    margin = mechanism.margin(confidence, candidates)

    def covered(reach: int) -> Any:  # the best comes last, so that it loses every tie
        return noisy_max_law((*[-(reach + 1)] * (candidates - 1), 0), mechanism.rate)[candidates - 1]

    with workdps(60):
        assert covered(margin) >= real(confidence)
        assert margin < 2 or covered(margin - 2) < real(confidence)


def test_one_candidate_has_no_margin() -> None:
    assert NoisyMax(1, Fraction(1, 100), ADD).margin(Fraction(99, 100), 1) == 0


def test_the_margin_of_several_choices_is_that_of_one_at_a_shared_confidence() -> None:
    top = NoisyTop(4, 1, Fraction(1), ADD)
    assert top.margin(Fraction(9, 10), 50) == top.single_choice.margin(Fraction(975, 1000), 50)


def test_top_lists_distinct_indices_the_noisy_best_first() -> None:
    top = NoisyTop(3, 1, Fraction(1000), ADD)
    assert top.release([5, 90, 40, 70, 60], HashSource(1)).tolist() == [1, 3, 4]
    assert sorted(NoisyTop(5, 1, Fraction(1, 1000), ADD).release([5, 90, 40, 70, 60], HashSource(1))) == [0, 1, 2, 3, 4]


def test_events_charge_each_choice() -> None:
    assert NoisyMax(2, Fraction(1, 3), ADD).event == Pure(Fraction(1, 3), ADD)
    assert NoisyTop(4, 2, Fraction(1, 3), ADD).event == Repeated(Pure(Fraction(1, 3), ADD), 4)


def test_sums_at_the_ends_of_sixty_four_bits_do_not_wrap() -> None:
    values = np.array([2**63 - 1, -(2**63)], dtype=np.int64)
    assert add_score_noise(values, np.array([5, -5])).tolist() == [2**63 + 4, -(2**63) - 5]
    assert add_score_noise(np.array([2**64 - 1], dtype=np.uint64), np.array([1])).tolist() == [2**64]
    assert add_score_noise(np.array([3], dtype=np.uint64), np.array([-5])).tolist() == [-2]
    assert NoisyMax(1, Fraction(1), ADD).release([2**63 - 1, -(2**63)], HashSource(0)) == 0
    assert NoisyMax(1, Fraction(1), ADD).release([10**30, 10**30 - 10**9], HashSource(0)) == 0


@pytest.mark.parametrize("scores", [[], [1.0], [True], None, [[1]]], ids=repr)
def test_scores_that_cannot_be_chosen_from_are_refused(scores: Any) -> None:
    with pytest.raises(Refusal):
        NoisyMax(1, Fraction(1), ADD).release(scores, HashSource(0))
    with pytest.raises(Refusal):
        NoisyTop(2, 1, Fraction(1), ADD).release(scores, HashSource(0))


@pytest.mark.parametrize(
    "arguments", [(0, 1, 1, ADD), (1, 0, 1, ADD), (1, 1, 0.5, ADD), (1, 1, 1, "all"), (1, 1, 1, ADD, 0)], ids=repr
)
def test_parameters_that_mean_nothing_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(Refusal):
        NoisyTop(*arguments)
    if arguments[0]:
        with pytest.raises(Refusal):
            NoisyMax(*arguments[1:])
    with pytest.raises(Refusal):
        NoisyTop(3, 1, Fraction(1), ADD).margin(Fraction(1, 2), 2)
