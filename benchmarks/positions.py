"""How much nearer are synthetic numbers to the data if the place inside cells is measured, too? (ε = 1, δ = 1e-6)

    python benchmarks/positions.py

Made-up salaries, rounded as people round them, and ages, beside a column of two values. The distance is the largest
difference of the shares of rows up to a value (Kolmogorov and Smirnov), of as many rows as there are people.
"""

from statistics import median

import numpy as np
import numpy.typing as npt

from sfumato.synthesis.domain import Range
from sfumato.synthesis.synthesize import synthesize_table

RUNS = 5
SIZES = (1_000, 10_000, 100_000)
Values = npt.NDArray[np.float64]


def made_up(people: int) -> dict[str, Values]:
    """Return salaries in round numbers, ages, and who works part-time."""
    random = np.random.default_rng(5)
    age = np.clip(random.normal(45, 14, people), 16, 90).astype(int).astype(float)
    part_time = (random.random(people) < 0.3).astype(float)
    salary = random.lognormal(10.4, 0.6, people) * (1 - 0.5 * part_time)
    step = random.choice([1000.0, 5000.0, 1.0], people, p=[0.5, 0.3, 0.2])
    return {"salary": np.clip(np.rint(salary / step) * step, 0, 400_000), "age": age, "part_time": part_time}


def distance(first: Values, second: Values) -> float:
    """Return the largest difference between the shares of values up to each value."""
    ends = np.unique(np.concatenate([first, second]))
    shares = [np.searchsorted(np.sort(values), ends, side="right") / len(values) for values in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())


def main() -> None:
    domain = {
        "salary": Range(0, 400_000, 16, whole=True),
        "age": Range(16, 90, 10, whole=True),
        "part_time": [0, 1],
    }
    ratios = []
    for people in SIZES:
        data = made_up(people)
        given = {name: values.astype(int).tolist() for name, values in data.items()}
        for column in ("salary", "age"):
            found = {}
            for positions in ((), ("salary", "age")):
                tables = [
                    synthesize_table(
                        given, domain, epsilon=1, delta="1e-6", rows=people, seconds=10, positions=positions
                    ).table()
                    for _ in range(RUNS)
                ]
                found[positions] = median(distance(table[column].to_numpy(), data[column]) for table in tables)
            uniform, measured = found.values()
            ratios.append(measured / uniform)
            print(f"{people:,} people, {column}: uniform {uniform:.4f}, measured {measured:.4f}", flush=True)
    print(f"measured / uniform, geometric mean = {float(np.exp(np.mean(np.log(ratios)))):.2f}x")


if __name__ == "__main__":
    main()
