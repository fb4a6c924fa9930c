"""A clinic that does not exist: patients, their visits and its departments, the same from every run.

Production noise has no seeds: repeatable noise can be subtracted. These bits generate data and never become noise.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import parquet

from sfumato.randomness.source import Source
from sfumato.randomness.uniform import uniform_bits

PATIENTS = 100_000
YEAR = 2024
_FIRST_DAY = np.datetime64(f"{YEAR}-01-01")
_MAX_VISITS = 180
_FIRST_ID = 1_000_003

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Department:
    """A department: where it is, what a visit costs there, and how often each age comes."""

    key: str
    name: str
    wing: str
    floor: int
    cost: int
    """Median cost of a visit."""
    spread: float
    weights: tuple[int, int, int]
    """How often children, adults and the old come here."""


DEPARTMENTS = (
    Department("emergency", "Emergency", "south", 0, 310, 0.8, (30, 26, 20)),
    Department("surgery", "Surgery", "north", 2, 1450, 0.7, (8, 20, 22)),
    Department("maternity", "Maternity", "east", 1, 980, 0.5, (0, 17, 0)),
    Department("cardiology", "Cardiology", "north", 3, 620, 0.6, (2, 9, 28)),
    Department("paediatrics", "Paediatrics", "east", 2, 180, 0.5, (57, 0, 0)),
    Department("oncology", "Oncology", "north", 4, 1900, 0.6, (2, 8, 15)),
    Department("psychiatry", "Psychiatry", "south", 3, 240, 0.4, (1, 18, 6)),
    Department("palliative", "Palliative care", "south", 4, 720, 0.4, (0, 2, 9)),
)
DISTRICTS = {"harbour": 26, "old town": 21, "mills": 18, "university": 15, "hill": 12, "island": 8}
"""The districts of the town, in percent of its people."""


class MadeUp:
    """SHAKE-256 of a fixed word, read front to back: a source of data, never of noise."""

    __slots__ = ("_block", "_rest")
    name = "made-up"
    _SIZE = 1 << 20

    def __init__(self) -> None:
        self._block = 0
        self._rest = b""

    def read(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        parts, missing = [self._rest], count - len(self._rest)
        while missing > 0:
            parts.append(hashlib.shake_256(b"sfumato clinic/%d" % self._block).digest(self._SIZE))
            self._block += 1
            missing -= self._SIZE
        drawn = b"".join(parts)
        self._rest = drawn[count:]
        return drawn[:count]


def write_clinic(folder: Path, patients: int = PATIENTS) -> None:
    """Write patients.parquet, visits.parquet and departments.parquet into a folder."""
    source = MadeUp()
    people = _patients(patients, source)
    tables = {"patients": people, "visits": _visits(people, source), "departments": _departments()}
    for name, columns in tables.items():
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet")


def patients_seen(folder: Path) -> dict[str, int]:
    """Count, truly, how many patients each department saw. Only made-up people may be counted so."""
    visits = parquet.read_table(folder / "visits.parquet", columns=["dept", "patient_id"])
    patients = visits.group_by(["dept"]).aggregate([("patient_id", "count_distinct")])
    return dict(zip(patients["dept"].to_pylist(), patients["patient_id_count_distinct"].to_pylist(), strict=True))


def _patients(count: int, source: Source) -> dict[str, npt.NDArray[np.generic]]:
    age = np.minimum(98 * _uniform(count, source) ** 1.15, 97).astype(np.int64)
    return {
        "patient_id": _FIRST_ID + 7 * np.arange(count),
        "born": YEAR - age,
        "sex": np.array(["female", "male"])[(_uniform(count, source) < 0.49).astype(np.int64)],
        "district": np.array(list(DISTRICTS))[_draw_by_weight(list(DISTRICTS.values()), count, source)],
        "chronic": _uniform(count, source) < 0.05 + age / 250,
    }


def _visits(people: dict[str, npt.NDArray[np.generic]], source: Source) -> dict[str, npt.NDArray[np.generic]]:
    age_of = YEAR - people["born"].astype(np.int64)
    often = 1.3 + 1.2 * people["chronic"].astype(np.float64)
    # a heavy tail, as in every hospital: most come once or twice, a few come weekly
    visits = np.minimum(often * _uniform(len(age_of), source) ** -0.4, _MAX_VISITS).astype(np.int64)
    owner = np.repeat(np.arange(len(age_of)), visits)
    place = _homes(age_of, source)[owner, _draw_by_weight([72, 20, 8], len(owner), source)]
    age = age_of[owner]
    urgent = _uniform(len(owner), source) < np.where(place == 0, 0.7, 0.12)
    medians = np.array([department.cost for department in DEPARTMENTS])[place]
    spreads = np.array([department.spread for department in DEPARTMENTS])[place]
    cost = medians * np.exp(spreads * _normal(len(owner), source)) * (1 + 0.25 * urgent)
    stay = np.floor(-36 * (1 + age / 60) * np.log1p(-_uniform(len(owner), source))).astype(np.int64)
    columns = {
        "patient_id": people["patient_id"][owner],
        "day": _draw_days(len(owner), source),
        "dept": np.array([department.key for department in DEPARTMENTS])[place],
        "age": age,
        "urgent": urgent,
        "stay_hours": stay,
        "cost": np.round(cost, 2),
    }
    order = np.argsort(columns["day"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def _homes(age: Integers, source: Source) -> Integers:
    """Give each patient three departments, one of them the usual one."""
    homes = np.empty((len(age), 3), dtype=np.int64)
    class_of = np.digitize(age, [16, 65])
    for group in range(3):
        weights = [department.weights[group] for department in DEPARTMENTS]
        members = class_of == group
        homes[members] = _draw_by_weight(weights, 3 * int(members.sum()), source).reshape(-1, 3)
    return homes


def _draw_days(count: int, source: Source) -> npt.NDArray[np.datetime64]:
    """Spread visits over the year: more in winter, fewer on Sundays."""
    days = np.arange(366)
    season = 1 + 0.25 * np.cos(2 * np.pi * (days - 20) / 366)
    sunday = (_FIRST_DAY + days).astype("datetime64[D]").astype(np.int64) % 7 == 3
    return _FIRST_DAY + _draw_by_weight(season * np.where(sunday, 0.35, 1), count, source)


def _departments() -> dict[str, list[str] | list[int]]:
    return {
        "dept": [department.key for department in DEPARTMENTS],
        "name": [department.name for department in DEPARTMENTS],
        "wing": [department.wing for department in DEPARTMENTS],
        "floor": [department.floor for department in DEPARTMENTS],
    }


def _uniform(count: int, source: Source) -> Floats:
    """Draw from the open interval (0, 1)."""
    drawn: Floats = (uniform_bits(52, count, source) + 0.5) / 2.0**52
    return drawn


def _normal(count: int, source: Source) -> Floats:
    drawn: Floats = np.sqrt(-2 * np.log(_uniform(count, source))) * np.cos(2 * np.pi * _uniform(count, source))
    return drawn


def _draw_by_weight(weights: Sequence[float] | Floats, count: int, source: Source) -> Integers:
    """Draw places by their weights."""
    edges = np.cumsum(weights)
    return np.searchsorted(edges / edges[-1], _uniform(count, source), side="right").astype(np.int64)
