"""How far are rows of a wide table from the truth, as a share of the distance with one price for all rounds?

    python benchmarks/synthesis_wide.py                     # 60 and 112 columns, 2,000 to 200,000 people
    python benchmarks/synthesis_wide.py --people 20000 --columns 60 --runs 3

The people are made up like a survey: six hidden opinions, columns of 2 to 16 answers that depend on two of them. The
method before has d - 1 rounds of one price, and weighs 40,000 candidate rows; the method now has rounds of rising
prices, and edits the rows. Both have epsilon 1 and delta 1e-6. Distances are mean total variations over up to 2,000
marginals of one, two and three columns; the k-marginal score of SDNist is 1000 * (1 - distance). Seconds are of the
processor.
"""

import argparse
import time
from fractions import Fraction
from itertools import combinations
from statistics import median

import numpy as np
import numpy.typing as npt

from sfumato.accounting.event import Neighbours
from sfumato.mechanisms.exponential import Exponential
from sfumato.randomness.source import system_source
from sfumato.synthesis.combining import combine
from sfumato.synthesis.counting import count_marginal, with_noise
from sfumato.synthesis.model import Fitted, draw_pool, fit_weights, targets
from sfumato.synthesis.rows import systematic
from sfumato.synthesis.selecting import ONE_WAYS_SHARE, make_selection, misfit, tree_pairs
from sfumato.synthesis.synthesize import synthesize_table

MAX_MARGINALS = 2000
SIZES, SHARES = [2, 3, 4, 5, 6, 7, 8, 10, 12, 16], [0.25, 0.12, 0.12, 0.13, 0.1, 0.1, 0.06, 0.05, 0.04, 0.03]
Codes = list[npt.NDArray[np.int64]]


def survey(people: int, columns: int) -> tuple[Codes, list[int]]:
    """Return answers that do not exist, and how many answers each question has."""
    random = np.random.default_rng(5)
    opinions = random.normal(size=(people, 6))
    opinions[:, 1] = 0.5 * opinions[:, 0] + 0.87 * opinions[:, 1]
    cells, sizes = [], []
    for _ in range(columns):
        size = int(random.choice(SIZES, p=SHARES))
        loads, about = np.zeros(6), random.choice(6, 2, replace=False)
        loads[about] = random.normal(0, 1, 2) * [1, 0.4]
        leaning = opinions @ loads + random.normal(size=people)
        cuts = np.quantile(leaning, np.sort(random.dirichlet(np.full(size, 2.0)).cumsum()[:-1]))
        answers = np.digitize(leaning, cuts)
        if random.random() < 0.2:  # people of one opinion do not answer
            answers = np.where(random.random(people) < 0.3 * (opinions[:, about[0]] > 0.5), size - 1, answers)
        cells.append(answers.astype(np.int64))
        sizes.append(size)
    return cells, sizes


def distance(first: Codes, second: Codes, sizes: list[int], ways: int) -> float:
    """Return the mean total variation over marginals of so many columns."""
    chosen = list(combinations(range(len(sizes)), ways))
    if len(chosen) > MAX_MARGINALS:
        places = np.random.default_rng(1).choice(len(chosen), MAX_MARGINALS, replace=False)
        chosen = [chosen[place] for place in places]
    found = []
    for axes in chosen:
        one, other = (count_marginal(rows, axes, sizes) / len(rows[0]) for rows in (first, second))
        found.append(0.5 * np.abs(one - other).sum())
    return float(np.mean(found))


def before(rows: Codes, sizes: list[int]) -> Codes:
    """Return rows of the method before: d - 1 rounds of one price, a tree, and weighed candidate rows."""
    source, add = system_source(), Neighbours.ADD_REMOVE
    plan = make_selection(tuple(sizes), Fraction(1), Fraction(1, 10**6), 1, add)
    rho = plan.rho / (1 - ONE_WAYS_SHARE)
    rounds = len(sizes) - 1
    chooser = Exponential(1, Fraction(round((8 * 0.2 * float(rho) / rounds) ** 0.5, 9)), add)
    marginals: list[tuple[int, ...]] = [(axis,) for axis in range(len(sizes))]
    variances = [plan.earlier.one_way] * len(sizes)
    tables = [with_noise(count_marginal(rows, axes, sizes), 1, plan.earlier.one_way, add, source) for axes in marginals]
    secret = {axes: count_marginal(rows, axes, sizes) for axes in plan.candidates}
    for _ in range(rounds):
        joint = combine(sizes, marginals, variances, tables)
        tree = tree_pairs(targets(joint), len(sizes))
        left = [axes for axes in plan.candidates if axes not in marginals]
        noise = (2 / np.pi * float(plan.earlier.pair)) ** 0.5
        scores = [
            misfit(secret[axes], max(joint.total, 0.0) * tree[axes[0], axes[1]]) - round(noise * secret[axes].size)
            for axes in left
        ]
        chosen = left[chooser.release(scores, source)]
        marginals.append(chosen)
        variances.append(plan.earlier.pair)
        tables.append(with_noise(secret[chosen], 1, plan.earlier.pair, add, source))
    goals = targets(combine(sizes, marginals, variances, tables))
    candidates, drawn = draw_pool(goals, sizes, b"seed")
    weights, _, steps = fit_weights(candidates, goals, sizes, start=np.log(drawn), seconds=60)
    places = systematic(Fitted(candidates, weights, steps), len(rows[0]), 0.5)
    return [column[places] for column in candidates]


def now(rows: Codes, sizes: list[int]) -> Codes:
    """Return rows of the method now."""
    data = {f"c{axis}": column.tolist() for axis, column in enumerate(rows)}
    domain = {f"c{axis}": list(range(size)) for axis, size in enumerate(sizes)}
    table = synthesize_table(data, domain, epsilon=1, delta="1e-6", rows=len(rows[0])).table()
    return [table[f"c{axis}"].to_numpy() for axis in range(len(sizes))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int)
    parser.add_argument("--columns", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    tables = [(2000, 60), (20_000, 60), (200_000, 60), (20_000, 112)]
    for people, columns in [(asked.people, asked.columns)] if asked.people else tables:
        rows, sizes = survey(people, columns)
        random = np.random.default_rng(1)
        again = random.integers(0, people, people)
        apart = [column[random.permutation(people)] for column in rows]
        for name, other in (("bootstrap", [column[again] for column in rows]), ("independent", apart)):
            print(
                f"{people}, {columns}, {name}: "
                + ", ".join(f"{distance(rows, other, sizes, w):.4f}" for w in (1, 2, 3))
            )
        middle = {}
        for name, method in (("before", before), ("now", now)):
            lines = []
            for _ in range(asked.runs):
                begun = time.process_time()
                drawn = method(rows, sizes)
                seconds = time.process_time() - begun
                lines.append([*(distance(rows, drawn, sizes, ways) for ways in (1, 2, 3)), seconds])
            middle[name] = [median(column) for column in zip(*lines, strict=True)]
            one, two, three, seconds = middle[name]
            print(f"{people}, {columns}, {name}: {one:.4f}, {two:.4f}, {three:.4f}, {seconds:.1f} s", flush=True)
        ratios = [new / old for new, old in zip(middle["now"], middle["before"], strict=True)]
        print(
            f"{people} people, {columns} columns, now / before: 2-way {ratios[1]:.2f}x, 3-way {ratios[2]:.2f}x, "
            f"processor {ratios[3]:.2f}x; k-marginal score of pairs {1000 * (1 - middle['before'][1]):.0f} -> "
            f"{1000 * (1 - middle['now'][1]):.0f}"
        )


if __name__ == "__main__":
    main()
