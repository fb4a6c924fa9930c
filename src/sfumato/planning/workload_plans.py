"""The plans of a workload, each with the workload that it is a plan of: ranges may be measured as sums of pieces."""

from collections.abc import Sequence

from sfumato.analysis.private_query import PrivateQuery
from sfumato.planning.plan import Plan
from sfumato.planning.planner import PriceTarget, make_plans
from sfumato.planning.range_questions import prefers_pieces, range_questions
from sfumato.planning.workload import Workload, workload_of


def workload_plans(
    workload: Workload, questions: Sequence[PrivateQuery], target: PriceTarget
) -> tuple[tuple[Plan, Workload], ...]:
    """Return the plans of questions that are asked together, the preferred first."""
    plans = _plans_of_all(workload, target)
    known = None if target.weights or target.split is not None else range_questions(questions)
    if known is None:
        return plans
    pieces = _plans_of_all(workload_of(known.questions), target)
    return (*pieces, *plans) if prefers_pieces(pieces[0][0], known, plans[0][0], target.max_loss) else plans


def _plans_of_all(workload: Workload, target: PriceTarget) -> tuple[tuple[Plan, Workload], ...]:
    outcomes = tuple(question.outcome for question in workload.questions)
    return tuple((plan, workload) for plan in make_plans(workload.combined_query, target, outcomes))
