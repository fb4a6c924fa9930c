"""From answers about random subsets back to the bits: by least squares, and by linear programming."""

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize

from sfumato.errors import BadParameter
from sfumato.lab.attacks.historical import CountingSystem, Declined
from sfumato.lab.generators.seeded import Mask

NoisyAnswers = npt.NDArray[np.float64]


def ask_all_masks(system: CountingSystem, questions: Mask) -> NoisyAnswers:
    """Ask every question in turn. A system that declines one of them has ended the attack."""
    answers = []
    for mask in questions:
        answer = system.answer(mask)
        if isinstance(answer, Declined):
            raise BadParameter(
                f"The system declined: {answer.reason}.",
                "This attack needs all of its answers.",
                "Give the system as many questions as the attack asks.",
            )
        answers.append(answer)
    return np.array(answers, dtype=np.float64)


class LeastSquares:
    """The bits nearest to the answers in squared distance, each rounded separately [Dwork, McSherry, Talwar 2007].

    The questions are factored once, so that a whole curve of noise costs little more than one attack.
    """

    def __init__(self, questions: Mask) -> None:
        self._questions = questions.astype(np.float64)
        self._factor = linalg.cho_factor(self._questions.T @ self._questions)

    def decode(self, answers: NoisyAnswers) -> Mask:
        """Return a guess of every bit."""
        solution = linalg.cho_solve(self._factor, self._questions.T @ answers)
        guess: Mask = solution > 0.5
        return guess


def linear_programme(questions: Mask, answers: NoisyAnswers) -> Mask:
    """Return the bits, in [0, 1] and then rounded, whose answers differ least in absolute sum.

    Slower than least squares, and it survives a share of wild answers, however wild [Dwork, McSherry, Talwar 2007].
    """
    queries, rows = questions.shape
    counts, slack = questions.astype(np.float64), np.eye(queries)
    solution = optimize.linprog(
        np.concatenate([np.zeros(rows), np.ones(queries)]),  # minimise the slack
        A_ub=np.block([[counts, -slack], [-counts, -slack]]),  # |counts · x - answers| <= slack
        b_ub=np.concatenate([answers, -answers]),
        bounds=[(0, 1)] * rows + [(0, None)] * queries,
        method="highs",
    )
    guess: Mask = solution.x[:rows] > 0.5
    return guess
