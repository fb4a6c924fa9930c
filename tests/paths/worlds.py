"""Small clinics on disk, and their neighbours: what the laws of the whole path are tried on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.lab.generators.clinic import VISITS
from sfumato.lab.generators.grammar import GrammarTables

Rows = list[dict[str, Any]]
WITH_TOTAL = {**VISITS, "age": {**VISITS["age"], "total_per_unit": 30}}
"""The columns of visits where one person adds at most 30 to a sum of ages, of the 60 that three rows can have."""

TYPES = {
    "visits": {
        "patient_id": pa.int64(),
        "age": pa.int64(),
        "dept": pa.string(),
        "city": pa.string(),
        "cost": pa.float64(),
        "day": pa.date32(),
        "seen": pa.timestamp("us"),
        "urgent": pa.bool_(),
        "weight": pa.float64(),
        "score": pa.int64(),
    },
    "patients": {"patient_id": pa.int64(), "sex": pa.string(), "income": pa.int64(), "ward": pa.string()},
    "survey": {"x": pa.int64(), "mood": pa.string()},
    "staff": {"dept": pa.string(), "name": pa.string(), "floor": pa.int64()},
}

SCHEMA = GrammarTables(
    {
        "visits": {
            "patient_id": "integer",
            "age": "integer",
            "dept": "text",
            "city": "text",
            "cost": "decimal",
            "day": "date",
            "seen": "timestamp",
            "urgent": "boolean",
            "weight": "decimal",
            "score": "integer",
        },
        "patients": {"patient_id": "integer", "sex": "text", "income": "integer", "ward": "text"},
        "survey": {"x": "integer", "mood": "text"},
        "staff": {"dept": "text", "name": "text", "floor": "integer"},
    },
    frozenset({"staff"}),
    {"visits": "patient_id", "patients": "patient_id"},
)

STAFF: Rows = [
    {"dept": "er", "name": "ann", "floor": 1},
    {"dept": "er", "name": "bob", "floor": 2},
    {"dept": "icu", "name": "eve", "floor": 1},
]


@dataclass(frozen=True)
class World:
    """The private rows of a clinic; the staff is public and always the same."""

    visits: Rows = field(default_factory=list)
    patients: Rows = field(default_factory=list)
    survey: Rows = field(default_factory=list)

    @property
    def people(self) -> list[int]:
        """Everybody who has a name."""
        return sorted({row["patient_id"] for row in (*self.visits, *self.patients)})

    def without(self, person: int) -> "World":
        """Return the neighbour in which this person is not."""
        return World(
            [row for row in self.visits if row["patient_id"] != person],
            [row for row in self.patients if row["patient_id"] != person],
            self.survey,
        )

    def without_answer(self, place: int) -> "World":
        """Return the neighbour without one row of the survey, which is a person of its own."""
        return World(self.visits, self.patients, self.survey[:place] + self.survey[place + 1 :])


def visit(random: Random, person: int) -> dict[str, Any]:
    """Return a visit with values inside and outside of what is declared, and absent ones."""
    return {
        "patient_id": person,
        "age": random.choice([None, -5, 0, 3, 7, 19, 20, 99]),
        "dept": random.choice(["er", "icu", "surgery", "nowhere", None]),
        "city": random.choice(["rome", "oslo", "é", "", None]),
        "cost": random.choice([None, -9.0, -5.0, 0.0, 0.5, 2.25, 10.0, 1e300, float("nan"), float("inf"), -0.0]),
        "day": random.choice([None, date(2024, 2, 29), date(1900, 1, 1), date(2024, 12, 31)]),
        "seen": random.choice([None, datetime(2024, 2, 29, 23, 59, 59, 999999), datetime(2024, 1, 1)]),
        "urgent": random.choice([True, False, None]),
        "weight": random.choice([None, 1.5, -0.0, float("nan"), 1e308]),
        "score": random.choice([None, 0, 5, -(2**63), 2**63 - 1]),
    }


def a_world(seed: int, people: int = 4) -> World:
    """Return a small clinic: most people have more rows than count."""
    random = Random(seed)
    visits = [visit(random, person) for person in range(people) for _ in range(random.randint(1, 6))]
    patients = [
        {
            "patient_id": person,
            "sex": random.choice(["f", "m", None]),
            "income": random.choice([0, 20, 50, 70, None]),
            "ward": random.choice(["a", "b"]),
        }
        for person in range(people)
        for _ in range(random.randint(0, 2))
    ]
    survey = [
        {"x": random.choice([-3, 0, 2, 9, None]), "mood": random.choice(["good", "bad", "er"])}
        for _ in range(random.randint(1, 3))
    ]
    return World(visits, patients, survey)


MANY: dict[str, Any] = {"rows_per_unit": {"most": 480, "choose": "private"}, "groups_per_unit": 130}
"""Bounds of visits under which hundreds of rows and cells of one person count."""


def a_world_of_many(seed: int, rows: int) -> World:
    """Return a small clinic and one more person, of the highest number, with so many visits to as many cities."""
    world, random = a_world(seed), Random(seed)
    person = max(world.people) + 1
    visits = [{**visit(random, person), "city": f"city {at}", "score": at} for at in range(rows)]
    return World(world.visits + visits, world.patients, world.survey)


def policy(folder: Path, **changes: Any) -> dict[str, Any]:
    """Return the policy of the clinic whose data lies in `folder`/data."""
    return {
        "name": "clinic",
        "source": f"parquet:{folder}/data",
        "ledger": f"sqlite:{folder}/clinic.ledger",
        "budget": {"epsilon": 1000, "delta": 0.001},
        "tables": {
            "visits": {
                "unit": "patient_id",
                "rows_per_unit": 3,
                "columns": VISITS,
                **changes.pop("visits", {}),
            },
            "patients": {
                "unit": "patient_id",
                "rows_per_unit": 1,
                "columns": {
                    "patient_id": {"type": "integer"},
                    "sex": {"type": "text", "values": ["f", "m"]},
                    "income": {"type": "integer", "bounds": [0, 50]},
                    "ward": {"type": "text"},
                },
            },
            "survey": {
                "unit": "rows",
                "columns": {"x": {"type": "integer", "bounds": [-3, 5]}, "mood": {"type": "text"}},
            },
            "staff": {"public": True},
        },
        **changes,
    }


def write(folder: Path, world: World, salt: bytes = bytes(range(32))) -> None:
    """Write a clinic's files, and the salt that chooses the rows which count, so that neighbours share it."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    tables: Mapping[str, Iterable[dict[str, Any]]] = {
        "visits": world.visits,
        "patients": world.patients,
        "survey": world.survey,
        "staff": STAFF,
    }
    for name, rows in tables.items():
        schema = pa.schema(list(TYPES[name].items()))
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), folder / "data" / f"{name}.parquet")
    secret = folder / "clinic.ledger.copy.salt"
    secret.touch(mode=0o600)
    secret.write_bytes(salt)
