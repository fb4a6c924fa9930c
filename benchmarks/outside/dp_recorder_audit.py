"""Does dp-recorder find a mechanism of sfumato whose input moves further than it declares?

    python benchmarks/outside/dp_recorder_audit.py CHECKOUT

CHECKOUT is a checkout of ObliviousAI's dp-recorder; its requirements (NumPy, SciPy, tqdm, dp-accounting) must be
installed. Each question is recorded on a database and replayed on a neighbour without one person: the recorder gives
every mechanism the recorded output, compares what the mechanism was given with the declared sensitivity, and fails
where the calls or their parameters differ. The last row halves the sensitivity that Laplace noise declares.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.laplace import Laplace
from sfumato.mechanisms.max_norm import MaxNorm

QUESTIONS = (
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT COUNT(DISTINCT person) AS n FROM visits",
    "SELECT SUM(cost) AS n FROM visits",
    "SELECT AVG(cost) AS n FROM visits",
    "SELECT VAR_SAMP(age) AS n FROM visits",
    "SELECT STDDEV(age) AS n FROM visits",
    "SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept",
    "SELECT dept, SUM(cost) AS n FROM visits GROUP BY dept",
    "SELECT dept, AVG(cost) AS n, COUNT(*) AS m FROM visits GROUP BY dept",
    "SELECT dept, COUNT(DISTINCT person) AS n FROM visits GROUP BY dept",
    "SELECT COUNT(*) FILTER (WHERE cost > 50) AS a, COUNT(*) FILTER (WHERE cost <= 50) AS b FROM visits",
    "SELECT SUM(CASE WHEN age > 40 THEN cost ELSE 0 END) AS n FROM visits",
    "SELECT COUNT(*) AS n FROM visits WHERE age BETWEEN 20 AND 60",
    "SELECT SUM(cost * 2 - age) AS n FROM visits",
    "SELECT COUNT(*) AS n FROM (SELECT person, SUM(cost) AS c FROM visits GROUP BY person) t WHERE c > 100",
    "SELECT AVG(c) AS n FROM (SELECT person, COUNT(*) AS c FROM visits GROUP BY person) t",
    "SELECT COUNT(*) AS n FROM visits v JOIN people p ON v.person = p.person WHERE p.old",
    "SELECT p.old, SUM(v.cost) AS n FROM visits v JOIN people p ON v.person = p.person GROUP BY p.old",
    "SELECT COUNT(*) AS n FROM people WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person = people.person)",
    "SELECT CORR(cost, age) AS n FROM visits",
    "SELECT dept, COUNT(*) AS n FROM visits GROUP BY ROLLUP (dept)",
    "SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)",
)
POLICIES: dict[str, dict[str, Any]] = {
    "rows_per_unit = 3, pure": {"rows": 3, "delta": 0, "epsilon": "1"},
    "bounds chosen, with delta": {"rows": {"most": 32, "choose": "private"}, "delta": 1e-6, "epsilon": "0.05"},
}
REMOVED = (3, 17, 40, 77)
PEOPLE = 120


def tables(without: int | None) -> dict[str, pa.Table]:
    """Return the tables, without one person's rows; person 77 has forty visits."""
    draw = Random(9)
    visits = [
        (person, draw.choice(["er", "icu"]), draw.randint(0, 100), draw.randint(0, 90))
        for person in range(PEOPLE)
        for _ in range(40 if person == 77 else draw.randint(0, 6))
    ]
    people = [(person, draw.random() < 0.5) for person in range(PEOPLE)]
    kept, known = ([row for row in rows if row[0] != without] for rows in (visits, people))
    return {
        "visits": pa.table({n: [row[at] for row in kept] for at, n in enumerate(("person", "dept", "cost", "age"))}),
        "people": pa.table({n: [row[at] for row in known] for at, n in enumerate(("person", "old"))}),
    }


def opened(folder: Path, settings: dict[str, Any], without: int | None) -> sfumato.Database:
    """Open a database; all have one salt, so that nobody else's rows depend on the person who left."""
    folder.mkdir(parents=True)
    salt = folder / "ledger.copy.salt"
    salt.touch(mode=0o600)
    salt.write_bytes(bytes(range(32)))
    integer = {"type": "integer"}
    columns = {
        "person": integer,
        "dept": {"type": "text", "values": ["er", "icu"]},
        "cost": {**integer, "bounds": [0, 100]},
        "age": {**integer, "bounds": [0, 90]},
    }
    return sfumato.open(
        {
            "name": "recorded",
            "source": tables(without),
            "ledger": f"sqlite:{folder / 'ledger'}",
            "budget": {"epsilon": 1000, "delta": settings["delta"]},
            "tables": {
                "visits": {"unit": "person", "rows_per_unit": settings["rows"], "columns": columns},
                "people": {
                    "unit": "person",
                    "rows_per_unit": 1,
                    "columns": {"person": {**integer, "unique": True}, "old": {"type": "boolean"}},
                },
            },
        }
    )


@contextmanager
def instrumented(audit_spec: Callable[..., Any], part: Fraction) -> Iterator[None]:
    """Let the recorder see every noise mechanism; `part` of its sensitivity is declared for Laplace noise."""
    mechanisms: dict[type, tuple[str, Callable[[Any], float], Callable[[Any, Any], float]]] = {
        Laplace: ("laplace", lambda one: float(one.sensitivity * part), _l1),
        Gaussian: ("gaussian", lambda one: float(one.sensitivity_squared) ** 0.5, _l2),
        MaxNorm: ("max-norm", lambda one: float(one.sensitivity), _l1_of_largest),
    }
    drawn: list[Any] = []
    originals = {kind: kind.release for kind in mechanisms}  # type: ignore[attr-defined]

    def with_record(kind: type) -> Callable[..., Any]:
        name, declared, metric = mechanisms[kind]

        def draw(values: Any, sensitivity: float) -> Any:
            return drawn.pop()()

        spec = audit_spec(kind=name, input_arg="values", sensitivity_arg="sensitivity", metric_fn=metric)
        noisy: Callable[..., Any] = spec(draw)

        def release(self: Any, values: Any, source: Any) -> Any:
            exact = np.asarray(values, dtype=float)
            compared = exact / np.asarray(self.sides, dtype=float) if kind is MaxNorm else exact
            drawn.append(lambda: originals[kind](self, values, source))
            try:
                return noisy(values=compared, sensitivity=declared(self))
            finally:
                drawn.clear()

        return release

    for kind in mechanisms:
        kind.release = with_record(kind)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for kind, release in originals.items():
            kind.release = release  # type: ignore[attr-defined]


def _l1(one: Any, two: Any) -> float:
    return float(np.abs(one - two).sum())


def _l2(one: Any, two: Any) -> float:
    return float(((one - two) ** 2).sum() ** 0.5)


def _l1_of_largest(one: Any, two: Any) -> float:
    return float(np.abs(one - two).max(axis=1).sum())


def audited(auditor_of: Callable[[], Any], folder: Path, settings: dict[str, Any]) -> tuple[int, int, int]:
    """Return how many questions were tried, how many calls were recorded, and how many questions were flagged."""
    tried, calls, flagged = 0, 0, 0
    for removed in REMOVED:
        pair = (opened(folder / f"with {removed}", settings, None), opened(folder / f"no {removed}", settings, removed))
        for sql in QUESTIONS:
            auditor = auditor_of()
            tried += 1
            try:
                for at, database in enumerate(pair):
                    if at and not auditor.log:
                        break  # answered by numbers that an earlier question measured
                    if at:
                        auditor.set_replay()
                    with auditor:
                        database.ask(sql, epsilon=settings["epsilon"])
                auditor.validate_records()
            except (AssertionError, RuntimeError):
                flagged += 1
            calls += len(auditor.log)
        for database in pair:
            database.close()
    return tried, calls, flagged


def main() -> None:
    """Print what was recorded and flagged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    given = parser.parse_args()
    package = ModuleType("dp_recorder")  # without its plots, which need matplotlib
    package.__path__ = [str(given.checkout / "src" / "dp_recorder")]
    sys.modules["dp_recorder"] = package
    primitives = import_module("dp_recorder.auditing.audit_primitives")

    print("| policy | questions with a removed person | calls | flagged |")
    print("|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for part, name in ((Fraction(1), ""), (Fraction(1, 2), ", half the Laplace sensitivity declared")):
            for policy, settings in POLICIES.items():
                with instrumented(primitives.audit_spec, part):
                    place = Path(folder) / f"{part.denominator} {policy}"
                    tried, calls, flagged = audited(primitives.Auditor, place, settings)
                print(f"| {policy}{name} | {tried} | {calls} | {flagged} |", flush=True)


if __name__ == "__main__":
    main()
