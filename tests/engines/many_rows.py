"""Does a statement fail because of how many rows or cells one person has?  python -m tests.engines.many_rows [ENGINE …]

Asks every shape of question of a clinic in which single people have 10, 127, 128, 129, 1,500 and, here, 70,000 rows and
cells, under every form of contribution bound, at some candidate bounds and at all of them, on DuckDB, PostgreSQL and
Spark, or on those that are named. Every engine must return what DuckDB returns. `tests/engines/test_many_rows.py` is
the part without 70,000 rows and without Spark.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import pyarrow as pa
from tests.engines.engines import DuckDBUnderLaw, UnderLaw
from tests.engines.postgres_under_law import PostgresUnderLaw
from tests.engines.spark_under_law import SparkUnderLaw
from tests.engines.test_same_answers import SALT, exact_of
from tests.paths.shapes import SHAPES
from tests.paths.worlds import STAFF, TYPES, policy

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.engines.engine import Engine, SelectedBounds
from sfumato.errors import EngineFailed, Refusal
from sfumato.lab.generators.clinic import VISITS
from sfumato.planning.plan import Plan
from sfumato.planning.planner import make_plan, parse_price_target
from sfumato.policy.reading import read_policy
from sfumato.query.parse import parse

SIZES = (10, 127, 128, 129, 1_500)
"""How many rows, each in a cell of its own, single people have: around the ends of 8-bit integers, and beyond words."""
LARGEST = 70_000
"""Beyond 16-bit integers."""
_AGES = 2_000
_COLUMNS: dict[str, Any] = {**VISITS, "age": {"type": "integer", "bounds": [0, _AGES - 1]}}
_TOTAL: dict[str, Any] = {**_COLUMNS, "age": {**_COLUMNS["age"], "total_per_unit": 300_000}}
_CHOSEN: dict[str, Any] = {
    **_COLUMNS,
    "cost": {"type": "decimal", "bounds": {"within": [0, 10], "choose": "private"}, "step": 0.5},
}


def _private(most: int) -> dict[str, Any]:
    return {"most": most, "choose": "private"}


FORMS: dict[str, dict[str, Any]] = {
    "rows": {"rows_per_unit": 480},
    "private rows": {"rows_per_unit": _private(480)},
    "private rows, beyond words": {"rows_per_unit": _private(2_000)},
    "groups": {"rows_per_unit": 480, "groups_per_unit": 130},
    "private rows, groups": {"rows_per_unit": _private(480), "groups_per_unit": 130},
    "groups, beyond words": {"rows_per_unit": 2_000, "groups_per_unit": 1_000},
    "total": {"rows_per_unit": 2_000, "columns": _TOTAL},
    "private bounds": {"rows_per_unit": 2_000, "columns": _CHOSEN},
}
"""Forms of contribution bounds: numbers up to 480 are bits of words (`MAX_RANK_WORDS`), others are ranked."""
ASKED = (
    *SHAPES,
    "SELECT age, COUNT(*), SUM(cost) FROM visits WHERE cost < 9 GROUP BY age",
    "SELECT dept, COUNT(*) FROM visits WHERE age >= 0 GROUP BY dept",
    "SELECT dept, SUM(age), AVG(age), VAR_POP(age) FROM visits WHERE urgent OR NOT urgent GROUP BY dept",
    "SELECT CORR(age, cost), STDDEV_SAMP(age) FROM visits WHERE age > 0",
    "SELECT city, COUNT(*), COUNT(DISTINCT patient_id) FROM visits WHERE age > 0 GROUP BY city",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.dept = b.dept AND a.patient_id <> b.patient_id",
    *(
        f"SELECT SUM(LEAST(k * k * k * k, 5)) FROM (SELECT {number} OVER (PARTITION BY patient_id ORDER BY score) AS k "  # noqa: S608
        "FROM visits) t"
        for number in ("NTILE(100000)", "ROW_NUMBER()", "RANK()", "DENSE_RANK()", "COUNT(*)")
    ),
)
"""Shapes, and questions by which bits of words were added up in 8 bits, or products of numbers of rows were of 32."""


def clinic_of(sizes: Sequence[int]) -> dict[str, pa.Table]:
    """Return a clinic in which the first people have so many visits, each in a cell of its own, and others have one."""
    first = datetime(2024, 1, 1)
    visits = [
        {
            "patient_id": person,
            "age": at % _AGES,
            "dept": ("er", "icu", "surgery")[at % 3],
            "city": f"c{at}",
            "cost": at % 21 / 2,
            "day": date(2024, 1, 1) + timedelta(days=at % 366),
            "seen": first + timedelta(minutes=at),
            "urgent": at % 2 == 0,
            "weight": at / 7,
            "score": at,
        }
        for person, size in enumerate([*sizes, 1, 1, 1])
        for at in range(size)
    ]
    people = range(len(sizes) + 3)
    patients = [
        {"patient_id": person, "sex": "fm"[person % 2], "income": 10 * person, "ward": "a"} for person in people
    ]
    survey = [{"x": 1, "mood": "good"}, {"x": 2, "mood": "er"}]
    rows: Mapping[str, list[dict[str, Any]]] = {
        "visits": visits,
        "patients": patients,
        "survey": survey,
        "staff": STAFF,
    }
    return {name: pa.Table.from_pylist(lines, pa.schema(list(TYPES[name].items()))) for name, lines in rows.items()}


class Clinic:
    """A clinic of people with many rows under one form of bounds, on one engine."""

    def __init__(
        self, folder: Path, engine: UnderLaw, form: str, tables: Mapping[str, pa.Table], most: int = 0
    ) -> None:
        visits = {"columns": _COLUMNS, **FORMS[form]}
        if most:  # as many rows count as the people with most rows have
            rows = visits["rows_per_unit"]
            visits["rows_per_unit"] = {**rows, "most": most} if isinstance(rows, dict) else most
        words = policy(folder, visits=visits)
        self._budget = read_policy(words).budget
        del words["source"], words["ledger"]
        folder.mkdir(parents=True)
        secret = folder / "small.ledger.copy.salt"
        secret.touch(mode=0o600)
        secret.write_bytes(SALT)
        self.engine: Engine = engine.opened(folder, words, tables)

    def plan(self, sql: str) -> Plan | None:
        """Return the plan of a question; None where its text or price is refused, which no row decides."""
        engine = self.engine
        try:
            query = parse(sql, engine.catalog)
            with engine.public.one_question():
                private = analyse(query, engine.catalog, engine.public)
            cap = PrivacyLoss(self._budget.epsilon, self._budget.delta)
            return make_plan(private, parse_price_target(1, None, None, query.options, self._budget, cap))
        except EngineFailed:
            raise
        except Refusal:
            return None

    def exact(self, plan: Plan) -> list[Any]:
        """Return everything that a plan measures: at all candidate bounds together, and at some of them alone."""
        job = self.engine.prepare(plan)
        if not plan.groups:
            return [self.engine.query_public(plan.private.outcome)]
        some: list[SelectedBounds | None] = [None]
        if any(group.is_bound_selection for group in plan.groups):
            some += [_at(plan, share) for share in (0.0, 0.5, 1.0)]
        histograms = self.engine.run_selection(job)
        return [exact_of(self.engine.run(job, selected, histograms).groups) for selected in some]


def _at(plan: Plan, share: float) -> SelectedBounds:
    """Return a choice of the candidate bound at a share of all of them: noise would choose any of them."""
    levels = {
        group.group.label: len(one.candidates.thresholds) if one.candidates is not None else 1
        for group in plan.groups
        if group.is_bound_selection
        for one in group.measured
    }

    return {label: round(share * (number - 1)) for label, number in levels.items()}


def same_on(one: Clinic, other: Clinic, asked: Sequence[str]) -> int:
    """Ask both; raise at a difference or a failure. Return how many questions were answered."""
    answered = 0
    for sql in asked:
        plan = one.plan(sql)
        if plan is None:
            continue
        again = other.plan(sql)
        if again is None:
            raise AssertionError(f"{sql} is refused on the other engine")
        here = [_told(clinic, of, sql) for clinic, of in ((one, plan), (other, again))]
        if here[0] != here[1]:
            raise AssertionError(f"{sql}: engines differ")
        answered += 1
    return answered


def _told(clinic: Clinic, plan: Plan, sql: str) -> list[Any]:
    try:
        return clinic.exact(plan)
    except EngineFailed:
        raise AssertionError(f"{sql}: the engine failed") from None


def _long(engine: UnderLaw, folder: Path) -> Iterator[str]:
    tables = clinic_of([*SIZES, LARGEST])
    for place, form in enumerate(FORMS):
        for most in (0, 2 * LARGEST):
            begun = monotonic()
            here, there = (
                Clinic(folder / f"{engine.dialect.name}{place}{most}{at}", on, form, tables, most)
                for at, on in enumerate((DuckDBUnderLaw(), engine))
            )
            answered = same_on(here, there, ASKED)
            for clinic in (here, there):
                clinic.engine.close()
            bound = f", {most:,} rows" if most else ""
            yield f"{engine.dialect.name}, {form}{bound}: {answered} questions, {monotonic() - begun:.0f} s"


def main(names: Sequence[str]) -> int:
    """Ask everything of the engines of these names, or of all."""
    engines: list[UnderLaw] = [DuckDBUnderLaw(), PostgresUnderLaw(), SparkUnderLaw()]
    with TemporaryDirectory() as folder:
        for engine in engines:
            if not names or engine.dialect.name in names:
                for line in _long(engine, Path(folder)):
                    sys.stdout.write(f"{line}\n")
                    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
