"""The sampled audit of a whole database: answers on two neighbours, as often as a bound on epsilon needs them.

The engine runs once per neighbour and noise is drawn many times; nothing is charged, because the people are made up.
An outcome is everything that leaves: which keys are shown, every noisy number, how many bits the receipt states. The
error bars of the same answers have to cover the exact ones as often as they say.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.private_query import KeyValue, visible_key
from sfumato.engines.aggregates import Aggregates, GroupAggregates
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.lab.audits.alarm import FAILURE_PROBABILITY, Finding
from sfumato.lab.audits.empirical import at_most, epsilon_lower_bound
from sfumato.lab.audits.subject import Subject, open_subject, schema_of
from sfumato.lab.generators.clinic import clinic
from sfumato.lab.generators.population import HIGH_ID, WANDERER_ID, neighbour_of, populate
from sfumato.lab.generators.questions import questions
from sfumato.language.scalar import address
from sfumato.mechanisms.answers import Answers
from sfumato.planning.aggregates.average import AverageColumn
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy
from sfumato.randomness.source import Source, system_source
from sfumato.release.noisy import NoisyResult
from sfumato.release.publish import publish
from sfumato.release.receipt import Receipt
from sfumato.release.release import Release, make_release

NAME = "database"
SAMPLES_PER_QUERY = 20_000
_SAMPLED_RECEIPTS = 240
_MAX_COMPARED_NUMBERS = 60
"""Maximum number of values of one outcome that are compared."""
_LEVEL = 0.95
_COVERAGE_EPSILON = "20"
_COVERED_QUESTIONS = (
    "SELECT age, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY age",
    "SELECT AVG(age) AS m FROM visits",
)
_LOSS_QUESTIONS = (
    ("SELECT COUNT(*) AS n FROM visits", HIGH_ID),
    ("SELECT SUM(cost) AS s, COUNT(*) AS n FROM visits", HIGH_ID),
    ("SELECT AVG(age) AS m FROM visits", HIGH_ID),
    ("SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept", WANDERER_ID),
    ("SELECT city, COUNT(*) AS n FROM visits GROUP BY city", WANDERER_ID),
)


def repeat_results(aggregates: Aggregates, times: int) -> Aggregates:
    """Return the aggregates of `times` equal databases at once: every cell's noise is its own, so these are samples."""
    return Aggregates(
        tuple(
            GroupAggregates(
                tuple((copy, *key) for copy in range(times) for key in group.keys),
                {name: _repeat_group(column, times) for name, column in group.columns.items()},
                None if group.units is None else np.tile(np.asarray(group.units), times),
            )
            for group in aggregates.groups
        )
    )


def _repeat_group(column: Answers, times: int) -> Answers:
    """Return a column repeated `times` times; of histograms, all their rows."""
    exact = np.asarray(column)
    return np.tile(exact, (times, *(1 for _ in exact.shape[1:])))


def sample_releases(
    plan: Plan, aggregates: Aggregates, cells: list[tuple[tuple[KeyValue, ...], ...]], times: int, source: Source
) -> npt.NDArray[np.float64]:
    """Return outcomes: for each cell of each group whether it is shown, and its noisy numbers (0 where it is not)."""
    noisy = publish(plan, repeat_results(aggregates, times), source)
    parts = []
    for group, keys in zip(noisy.groups, cells, strict=True):
        places = {key: index for index, key in enumerate(keys)}
        rows = [int(visible_key(copy) or 0) for copy, *_ in group.keys]
        columns = [places[key] for _, *rest in group.keys if (key := tuple(rest)) in places]
        shown = np.zeros((times, len(keys)))
        shown[rows, columns] = 1
        parts.append(shown)
        for _, values in group.columns:
            released = np.array(values, dtype=np.float64).reshape(len(rows), -1)  # of a histogram, all its buckets
            numbers = np.zeros((times, len(keys), released.shape[1]))
            numbers[rows, columns] = released
            parts.append(numbers.reshape(times, -1))
    return np.concatenate(parts, axis=1)[:, :_MAX_COMPARED_NUMBERS]


def compare_losses(one: Subject, other: Subject, sql: str, times: int) -> Iterator[str]:
    """Report queries whose measured loss certainly exceeds the quoted one."""
    plan, source = one.plan(sql), system_source()
    pair = one.run(plan), other.run(other.plan(sql))
    cells = [
        tuple(dict.fromkeys((*first.keys, *second.keys)))
        for first, second in zip(pair[0].groups, pair[1].groups, strict=True)
    ]
    epsilon, delta = float(plan.loss.epsilon), float(plan.loss.delta)
    first, second = (sample_releases(plan, aggregates, cells, times, source) for aggregates in pair)
    bound = epsilon_lower_bound(first, second, delta)
    if bound.epsilon > epsilon:
        yield f"{sql} is quoted at {plan.loss}, and loses {bound}"
    first_bits, second_bits = (
        [publish(plan, aggregates, source).bits for _ in range(_SAMPLED_RECEIPTS)] for aggregates in pair
    )
    bound = epsilon_lower_bound(first_bits, second_bits, delta)
    if bound.epsilon > epsilon:
        yield f"{sql}: the bits of the receipt tell neighbours apart, {bound}"


def compare_coverage(subject: Subject, sql: str, times: int) -> Iterator[str]:
    """Report columns whose intervals certainly cover less often than stated. An average's own noise is small here."""
    plan, source = subject.plan(sql, _COVERAGE_EPSILON), system_source()
    exact = subject.run(plan)
    truths = _exact_answers(plan, exact)
    hits, all_cells = dict.fromkeys(truths, 0), dict.fromkeys(truths, 0)
    for copy in range(times):
        release = _make_release(plan, publish(plan, exact, source), copy)
        for row, ends in enumerate(release.intervals()):
            for name, column in truths.items():
                low, high = ends[name] or (None, None)
                truth = column[row]
                all_cells[name] += 1
                hits[name] += (low is None or low <= truth) and (high is None or truth <= high)
    for name, number in hits.items():
        share = float(at_most(np.array([number]), all_cells[name], FAILURE_PROBABILITY)[0])
        if share < _LEVEL:
            yield f"{sql}: {name} is covered in less than {share:.3f} of the answers, and 0.95 is said"


def _make_release(plan: Plan, noisy: NoisyResult, copy: int) -> Release:
    return make_release(plan, noisy, Receipt(f"audit {copy}", "", "", PrivacyLoss(Fraction(0))), evaluate)


def _exact_answers(plan: Plan, exact: Aggregates) -> dict[str, list[float]]:
    """Return the exact answers by the names of the columns, which are those of the aggregates in these questions."""
    (group,), (found,) = plan.groups, exact.groups
    shown = list(zip((address(item.scalar) for item in plan.private.outcome.items), plan.private.names, strict=True))
    truths = {}
    for derived in group.derived:
        name = next(name for reference, name in shown if reference is not None and reference.name == derived.name)
        columns = [
            [
                sum(values)
                for values in zip(
                    *(
                        [sign * int(value) for value in found.columns[step]]
                        for step, sign in group.terms_of(measurement)
                    ),
                    strict=True,
                )
            ]
            for measurement in derived.measured
        ]
        if isinstance(derived, AverageColumn):
            grid, pairs = derived.grid, zip(*columns, strict=True)
            truths[name] = [float((grid.offset + Fraction(t, n)) * grid.step) for n, t in pairs]
        else:
            truths[name] = [float(value * derived.step) for value in columns[0]]
    return truths


def audit(
    policy: Policy, folder: Path, seed: object, queries: tuple[tuple[str, int], ...], times: int
) -> list[Finding]:
    """Sample questions of a policy, each on two neighbours that differ in one person."""
    everybody = populate(policy, seed)
    with ExitStack() as stack:
        one = stack.enter_context(open_subject(policy, everybody, folder / "all"))
        others = {
            person: stack.enter_context(
                open_subject(policy, neighbour_of(everybody, policy, seed, person), folder / str(person))
            )
            for person in dict.fromkeys(person for _, person in queries)
        }
        return [
            Finding(NAME, message)
            for sql, person in queries
            for message in compare_losses(one, others[person], sql, times)
        ]


def sample_policy(policy: Policy, folder: Path, seed: object, most: int) -> list[Finding]:
    """Sample counts of any policy: the first plain questions of every kind."""
    with open_subject(policy, populate(policy, seed), folder / "shape") as subject:
        queries = questions(schema_of(subject.engine.catalog))
        counted = [sql for sql in queries if "SELECT COUNT(*)" in sql and subject.answers(sql)]
    return audit(policy, folder, seed, tuple((sql, HIGH_ID) for sql in counted[:most]), SAMPLES_PER_QUERY)


def run(seed: object, folder: Path, releases: tuple[int, int] = (24, 500)) -> list[Finding]:
    """Audit the clinic: answers on neighbours, and the error bars of `times` releases of two queries."""
    alarms = audit(clinic(), folder, seed, _LOSS_QUESTIONS, SAMPLES_PER_QUERY)
    with open_subject(clinic(), populate(clinic(), seed), folder / "bars") as subject:
        for sql, times in zip(_COVERED_QUESTIONS, releases, strict=True):
            alarms += [Finding(NAME, message) for message in compare_coverage(subject, sql, times)]
    return alarms
