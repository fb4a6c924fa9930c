"""Small made-up tables for the tests of synthesis, each the same in every run."""

from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.randomness.source import Source
from sfumato.synthesis.domain import Range
from sfumato.synthesis.synthesize import _synthesize_table
from sfumato.synthesis.synthetic import Synthetic

DOMAIN: dict[str, Any] = {
    "age": Range(0, 99, 10, whole=True),
    "dept": ["er", "icu", "surgery", "none"],
    "urgent": [False, True],
    "cost": Range(0, 1000, 8),
}


def people(count: int, seed: int = 3) -> dict[str, list[Any]]:
    """Return a table in which every pair of columns depends on each other."""
    random = np.random.default_rng(seed)
    age = np.clip(random.normal(50, 20, count), 0, 99).astype(int)
    dept = np.where(
        age > 60, random.choice([0, 1, 2], count, p=[0.5, 0.4, 0.1]), random.choice([0, 1, 2], count, p=[0.2, 0.1, 0.7])
    )
    urgent = random.random(count) < np.where(dept == 0, 0.8, 0.2)
    cost = np.clip(random.gamma(2.0, 60 + age + 200 * urgent), 0, 1000)
    return {
        "age": age.tolist(),
        "dept": [DOMAIN["dept"][place] for place in dept],
        "urgent": urgent.tolist(),
        "cost": cost.tolist(),
    }


def made(source: Source, count: int = 3000, epsilon: object = Fraction(1), **named: Any) -> Synthetic:
    """Return a synthetic table of such people, with noise from a given source."""
    data = named.pop("data", None) or people(count)
    wishes: dict[str, Any] = {"groups": None, "rows": None, "seconds": 60} | named
    domain = wishes.pop("domain", DOMAIN)
    return _synthesize_table(data, domain, epsilon, "1e-6", **wishes, source=source)
