"""The same secret bits behind our own noise and our own budget: questions may be chosen as the answers come in."""

import numpy as np

from sfumato.accounting.calibrate import gaussian_sigma_squared_for, laplace_scale_for
from sfumato.accounting.event import Neighbours, Repeated
from sfumato.accounting.filter import Filter
from sfumato.accounting.loss import PrivacyLoss
from sfumato.lab.attacks.historical import Declined
from sfumato.lab.generators.seeded import Mask
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.randomness.source import Source


class Protected:
    """Counts with exact integer noise, as accurate as `questions` equal questions may be within one budget.

    A person whose bit changes moves each count by one at most. Without delta the noise is Laplace, with delta it is
    Gaussian; all the answers are charged to a filter before the first is drawn, and it gives no more of them.
    """

    def __init__(self, secret: Mask, loss: PrivacyLoss, questions: int, source: Source) -> None:
        self.name = f"sfumato, {loss}"
        self.loss = loss
        self._secret = secret
        self._source = source
        self._left = questions
        whole = Filter(loss.epsilon, loss.delta)
        self._mechanism = _mechanism(whole, questions)
        self.budget = whole.charge(Repeated(self._mechanism.event, questions))

    def answer(self, mask: Mask) -> float | Declined:
        """Count and add noise, as long as charged answers are left."""
        if not self._left:
            return Declined("the budget is spent")
        self._left -= 1
        return int(self._mechanism.release([np.count_nonzero(self._secret & mask)], self._source)[0])


def _mechanism(budget: Filter, questions: int) -> Laplace | Gaussian:
    if budget.delta:
        return Gaussian(1, gaussian_sigma_squared_for(budget, questions, 1), Neighbours.REPLACE)
    return Laplace(1, laplace_scale_for(budget, questions, 1), Neighbours.REPLACE)
