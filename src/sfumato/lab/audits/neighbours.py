"""Random queries on neighbours: exact aggregates differ by at most the declared sensitivity, and nothing else differs.

Every question is planned and run on two databases, by the engine itself: no ledger, no noise that hides. The second
one lacks a person, or has them replaced; or it holds the same people in another order, under another number of
threads, and then nothing may move at all. What was refused must be refused in the same words, what was planned must be
the same plan, and no question may fail, or take long, once it was accepted.

`python -m sfumato.lab.audits.neighbours 100000` asks 100,000 queries in two processes; `--first` continues after a
run, and `--seconds` ends it after a time. It counts questions by their shape.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from time import monotonic, process_time
from typing import TypeVar

from sfumato.accounting.event import Neighbours
from sfumato.accounting.loss import PrivacyLoss
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.errors import EngineFailed, Refusal
from sfumato.lab.audits.alarm import Finding
from sfumato.lab.audits.replay import Recording, compare, record
from sfumato.lab.audits.shrinking import shrink
from sfumato.lab.audits.subject import Subject, open_subject, schema_of
from sfumato.lab.generators.grammar import LOW_BITS, Grammar, GrammarTables
from sfumato.lab.generators.hospital import archive, hospital
from sfumato.lab.generators.pharmacy import MAX_PHARMACY_ROWS, pharmacy
from sfumato.lab.generators.population import (
    CANARY,
    HIGH_ID,
    LOW_ID,
    MAX_ROWS,
    WANDERER_ID,
    Population,
    neighbour_of,
    populate,
)
from sfumato.lab.generators.scratch import scratch
from sfumato.lab.generators.seeded_random import SeededDice
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy
from sfumato.query.parse import parse
from sfumato.release.receipt import Receipt
from sfumato.release.release import make_release

T = TypeVar("T")

NAME = "neighbours"
CPU_LIMIT_SECONDS = 5.0
"""CPU seconds that one query over a few hundred rows may take.

Large populations, the archive and the pharmacies may take ten times as long: their tables of removed rows have 4,801
and 1,601 public cells, and each can have a MIN with as many candidates.
"""
_SLOW = " s for a few rows"
_QUERIES_PER_POPULATION = 2_000
"""Number of queries asked on one population."""
_QUERY_CYCLE_COUNT = 20
"""One query in this many runs on a large population, whose rows several threads share."""
_PUBLISHED_INTERVAL_QUERIES = 3
"""One query in this many is also published, from equal coins."""
_MANY_UNITS, _READING_ROWS = 3_000, 5_000


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal as an analyst sees it."""

    code: str
    words: str


@dataclass(frozen=True, slots=True)
class Other:
    """Another database: what was changed, and by how many people it differs."""

    name: str
    subject: Subject
    distance: int
    patience: float = CPU_LIMIT_SECONDS


@dataclass(frozen=True, slots=True)
class NeighbourSet:
    """One database and others that are near it."""

    subject: Subject
    others: tuple[Other, ...]

    @property
    def schema(self) -> GrammarTables:
        """Tables and columns that queries are generated from."""
        return schema_of(self.subject.engine.catalog)


@dataclass(slots=True)
class Outcomes:
    """How many questions were asked, what became of them, and what differed."""

    asked: int = 0
    shapes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)


@contextmanager
def open_neighbour_set(
    policy: Policy,
    seed: object,
    folder: Path,
    people: int = 8,
    readings: int = 8,
    most_rows: int = 50,
    patience: float = CPU_LIMIT_SECONDS,
) -> Iterator[NeighbourSet]:
    """Open a population, the same in another order, and its neighbours."""
    public, patience = {"readings": readings}, patience if people < _MANY_UNITS else 10 * CPU_LIMIT_SECONDS
    everybody = populate(policy, seed, people, public=public, most_rows=most_rows)
    populations: list[tuple[str, Population, int]] = [("in another order", everybody.shuffled(SeededDice(seed)), 0)]
    replaced = policy.neighbours is Neighbours.REPLACE
    for person in (HIGH_ID, LOW_ID, WANDERER_ID):
        name = f"with another {person}" if replaced else f"without {person}"
        populations.append((name, neighbour_of(everybody, policy, seed, person, people, public, most_rows), 1))
    rows = [] if replaced else [owner for owner in everybody.owners if "/" in owner][:1]
    populations += [(f"without {owner}", everybody.without(owner), 1) for owner in rows]
    with ExitStack() as stack:
        subject = stack.enter_context(open_subject(policy, everybody, folder / "all"))
        others = [
            Other(name, stack.enter_context(_other(policy, population, folder / str(index), index)), distance, patience)
            for index, (name, population, distance) in enumerate(populations)
        ]
        if any(other.subject.engine.catalog != subject.engine.catalog for other in others):
            raise ValueError("the catalog depends on the data")
        yield NeighbourSet(subject, tuple(others))


@contextmanager
def _other(policy: Policy, population: Population, folder: Path, place: int) -> Iterator[Subject]:
    with open_subject(policy, population, folder, threads=1 + place % 2 * 3 if place else 4, order=place) as subject:
        yield subject


def differences(one: Subject, other: Other, sql: str, seed: int) -> list[str]:
    """Ask both; say what differs by more than is declared, and what fails."""
    begun = process_time()
    read = _run_step(lambda: parse(sql, one.engine.catalog))  # the catalogs are equal: `world` has compared them
    if isinstance(read, Refused | str):
        first: Plan | Refused | str = read
        second: Plan | Refused | str = read
    else:
        first, second = _run_step(lambda: one.plan_of(read)), _run_step(lambda: other.subject.plan_of(read))
    if isinstance(first, str) or isinstance(second, str):
        return [f"fault: {first if isinstance(first, str) else second}"]
    if isinstance(first, Refused) or isinstance(second, Refused):
        messages = [] if first == second else [f"{_words(first)} / {_words(second)}"]
        leaks = isinstance(first, Refused) and CANARY in first.words
        return messages + ["fault: a message repeats a value"] * leaks
    try:
        pair = _record_published(one, first, seed), _record_published(other.subject, second, seed)
    except Exception as error:  # whatever it is: the question was accepted
        return [f"fault: {type(error).__name__} after a quote"]
    messages = [] if None in pair else list(compare(*pair, other.distance))  # type: ignore[arg-type]
    seconds = process_time() - begun
    return messages + [f"fault: {seconds:.0f}{_SLOW}"] * (seconds > other.patience)


def _run_step(step: Callable[[], T]) -> T | Refused | str:
    """Return the result of a step, its refusal or its failure."""
    try:
        return step()
    except EngineFailed:
        return "the engine failed before a charge"
    except Refusal as refusal:
        return Refused(refusal.code, str(refusal))
    except Exception as error:  # whatever it is: no text may provoke it
        return f"{type(error).__name__} is not a refusal"


def _words(planned: Plan | Refused) -> str:
    return f"{planned.code}: {planned.words}" if isinstance(planned, Refused) else "answered"


def _record_published(subject: Subject, plan: Plan, seed: int) -> Recording | None:
    """Run a plan as far as people see it, and return what its mechanisms were given; None where it is free."""
    if not plan.groups:
        subject.engine.query_public(plan.private.outcome)
        return None
    recording = record(subject, plan, seed)
    if seed % _PUBLISHED_INTERVAL_QUERIES == 0:
        make_release(plan, recording.noisy, Receipt("", "", "", PrivacyLoss(Fraction(0))), evaluate).rows()
    return recording


def question(schema: GrammarTables, seed: object, number: int) -> str:
    """Return the question of this number: a run can go on where another one ended."""
    return _shape_and_query(schema, seed, number)[1]


def _shape_and_query(schema: GrammarTables, seed: object, number: int) -> tuple[str, str]:
    grammar = Grammar(schema, SeededDice((seed, number)))
    text = grammar.query()
    return grammar.shape, text


def ask(
    place: NeighbourSet, numbers: Sequence[int], seed: object, tally: Outcomes, most: int, end: float | None = None
) -> None:
    """Ask the questions of these numbers; end early after `most` differences, which are shortened, or at a time."""
    schema = place.schema
    for number in numbers:
        if end is not None and monotonic() > end:
            return
        (shape, sql), other = _shape_and_query(schema, seed, number), place.others[number % len(place.others)]
        tally.asked += 1
        tally.shapes[shape] += 1
        if number % 10 == 0:  # a tenth is enough to know how many are answered
            planned = _run_step(partial(place.subject.plan, sql))
            tally.refused[planned.code if isinstance(planned, Refused) else "answered"] += 1
        if messages := _find_differences(place, other, sql, number):
            again = partial(_find_differences, place, other, number=number)
            short = shrink(sql, lambda text, again=again: bool(again(text)))  # type: ignore[misc]
            message = (again(short) or messages)[0]
            tally.found.append(f"{number}, {other.name}: {short}: {message} (found as: {sql})")
            if len(tally.found) >= most:
                return


def _find_differences(place: NeighbourSet, other: Other, sql: str, number: int) -> list[str]:
    """Return the differences. Queries that only took long are repeated, because the machine may have been busy."""
    messages = differences(place.subject, other, sql, number)
    return differences(place.subject, other, sql, number) if messages and messages[0].endswith(_SLOW) else messages


def run(seed: object, folder: Path, number: int = 400) -> list[Finding]:
    """Ask the regression queries, the archive's, and then random queries on every population."""
    with open_neighbour_set(archive(), seed, folder / "many", patience=10 * CPU_LIMIT_SECONDS) as place:
        for other in place.others:
            for sql in ONCE_FAILED:
                if messages := differences(place.subject, other, sql, 0):
                    return [Finding(NAME, f"{other.name}: {sql}: {messages[0]}")]
    with open_neighbour_set(hospital(), seed, folder / "once", _MANY_UNITS, 4 * _READING_ROWS) as place:
        for other in place.others[:2]:
            for sql in regression_queries():
                if messages := differences(place.subject, other, sql, 0):
                    return [Finding(NAME, f"{other.name}: {sql}: {messages[0]}")]
    tally = Outcomes()
    _chunk(folder, seed, range(number), tally, 1)
    return [Finding(NAME, message) for message in tally.found]


ONCE_FAILED = (
    "SELECT dept, COUNT(*) FROM stays WHERE age >= 0 GROUP BY dept",
    "SELECT VAR_POP(age), STDDEV_SAMP(cost), CORR(age, cost) FROM stays",
    "SELECT bed, COUNT(*), SUM(amount) FROM doses WHERE amount < 9 GROUP BY bed",
    "SELECT SUM(LEAST(k * k * k * k, 5)) FROM (SELECT NTILE(100000) OVER (PARTITION BY person ORDER BY day) AS k "
    "FROM stays) t",
)
"""Questions of an archive that failed where one person had more rows or cells than 8 bits count."""


def regression_queries() -> Iterator[str]:
    """Give queries whose answers once depended on the order of all rows."""
    zeros = "CASE WHEN weight = 0 THEN weight * (age - 10) END"  # zeros of both signs
    powers = ("AVG(POWER(long, 3))", "SUM(DISTINCT POWER(long, 3))", "AVG(DISTINCT POWER(long, 3))")
    for fold in (*powers, f"MAX({zeros})", f"MIN({zeros})"):
        inner = f"SELECT patient_id, {fold} AS a FROM visits GROUP BY patient_id"  # noqa: S608
        yield f"SELECT SUM(CAST(FLOOR(a) AS integer) % 7) FROM ({inner}) t"  # noqa: S608
        yield f"SELECT COUNT(*) FROM ({inner}) t WHERE CAST(a AS text) LIKE '-%'"  # noqa: S608
    for fold in ("AVG(level)", "SUM(level)", "VAR_SAMP(level)", "STDDEV_POP(level)"):
        for bits in LOW_BITS:
            key = f"FLOOR(s.a * {bits}) % 2 * i.c"
            four = "(VALUES (1), (2), (3), (4)) i(c)"
            public = f"SELECT {key} AS k FROM (SELECT {fold} AS a FROM readings) s CROSS JOIN {four}"  # noqa: S608
            yield f"SELECT COUNT(*) FROM visits v JOIN ({public}) p ON v.age - v.age = p.k"  # noqa: S608


def _chunk(
    folder: Path, seed: object, numbers: Sequence[int], tally: Outcomes, most: int, end: float | None = None
) -> None:
    """Ask queries: most on few people, some with replaced people, many rows or a large population."""
    crowd = [number for number in numbers if number % _QUERY_CYCLE_COUNT == 0]
    replaced = [number for number in numbers if number % _QUERY_CYCLE_COUNT in (1, 2, 3)]
    many = [number for number in numbers if number % _QUERY_CYCLE_COUNT in (4, 5, 6, 7)]
    archived = [number for number in numbers if number % _QUERY_CYCLE_COUNT in (8, 9)]
    few = [number for number in numbers if number % _QUERY_CYCLE_COUNT > 9]
    for name, policy, some, size in (
        ("many", pharmacy(), many[::2], (8, 8, MAX_PHARMACY_ROWS, 10 * CPU_LIMIT_SECONDS)),
        (
            "many replaced",
            pharmacy(neighbours="replace"),
            many[1::2],
            (8, 8, MAX_PHARMACY_ROWS, 10 * CPU_LIMIT_SECONDS),
        ),
        ("archive", archive(), archived, (8, _READING_ROWS, MAX_ROWS, 10 * CPU_LIMIT_SECONDS)),
        ("few", hospital(), few, (8, _READING_ROWS)),
        ("replaced", hospital(neighbours="replace"), replaced, (8, _READING_ROWS)),
        ("crowd", hospital(), crowd, (_MANY_UNITS, 4 * _READING_ROWS, 50, 10 * CPU_LIMIT_SECONDS)),
    ):
        if some and len(tally.found) < most and (end is None or monotonic() < end):
            with open_neighbour_set(policy, (seed, numbers[0]), folder / name, *size) as place:
                ask(place, some, seed, tally, most, end)


def _process(numbers: range, seed: object, most: int, end: float | None) -> Outcomes:
    tally = Outcomes()
    with scratch() as folder:
        _chunk(folder, seed, numbers, tally, most, end)
    return tally


def main(arguments: Sequence[str]) -> int:
    """Ask many questions in several processes and say how it goes; return 1 after a difference."""
    parser = argparse.ArgumentParser(prog="python -m sfumato.lab.audits.neighbours", description=__doc__)
    parser.add_argument("questions", type=int)
    parser.add_argument("--first", type=int, default=0, help="the number of the first question: go on from there")
    parser.add_argument("--seed", default="neighbours")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--most", type=int, default=3, help="the number of differences that end a chunk of questions")
    parser.add_argument("--seconds", type=float, default=None, help="the time after which no question is begun")
    parser.add_argument(
        "--chunk", type=int, default=_QUERIES_PER_POPULATION, help="the number of questions about the same people"
    )
    wanted = parser.parse_args(arguments)
    end, begun, whole = wanted.first + wanted.questions, monotonic(), Outcomes()
    chunks = [range(start, min(start + wanted.chunk, end)) for start in range(wanted.first, end, wanted.chunk)]
    until = None if wanted.seconds is None else begun + wanted.seconds
    asking = partial(_process, seed=wanted.seed, most=wanted.most, end=until)
    with ProcessPoolExecutor(wanted.processes) as pool:
        for numbers, tally in zip(chunks, pool.map(asking, chunks), strict=True):
            if not tally.asked:
                continue
            whole.asked += tally.asked
            whole.shapes += tally.shapes
            whole.refused += tally.refused
            whole.found += tally.found
            pace = whole.asked / (monotonic() - begun)
            _print_line(f"{numbers.stop:,} of {end:,}: {len(whole.found)} differences, {pace:.0f} questions a second")
            for message in tally.found:
                _print_line(f"  {message}")
    _print_line(", ".join(f"{shape} {count:,}" for shape, count in whole.shapes.most_common()))
    answered = whole.refused["answered"] / max(1, whole.refused.total())
    _print_line(
        f"{whole.asked:,} questions, {answered:.0%} of them answered, {len(whole.found)} differences, "
        f"in {monotonic() - begun:.0f} s"
    )
    return 1 if whole.found else 0


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
