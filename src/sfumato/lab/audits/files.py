"""Neighbours at the level of files: one person's records change no row of any other person.

Files are made up, written by several libraries in several manners, and registered three times: as they are, without one
person, and with that person's records as hostile as the format allows. All three open; whatever else is in the copy is
equal; what ordinary rows say is what plain Python counts; and questions differ by no more than is declared.

`python -m sfumato.lab.audits.files 500` tries 500 sources.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

from sfumato.errors import Refusal
from sfumato.lab.audits.alarm import Finding
from sfumato.lab.audits.fuzzing import observe
from sfumato.lab.audits.neighbours import Other, differences
from sfumato.lab.audits.subject import Subject, engine_of, move_policy, open_database, write_salt
from sfumato.lab.generators.scalars import Dice
from sfumato.lab.generators.scratch import scratch
from sfumato.lab.generators.seeded import Seeded
from sfumato.lab.generators.seeded_random import SeededDice
from sfumato.lab.generators.source_files import COLUMNS, WRITERS, Sheets, Writer, expected_sums, generate_files
from sfumato.policy.policy import Policy, fold_name
from sfumato.policy.reading import read_policy

NAME = "files"
UNBOUNDED_ROWS = 50
"""More rows than any synthetic person has."""
_QUERIES_THROUGH_LEDGER = 2
"""Number of queries asked through the ledger; the others go to the engine directly."""
FILE_QUESTIONS = (
    "SELECT COUNT(*), COUNT(n), SUM(n), COUNT(amount), SUM(amount), COUNT(day) FROM visits",
    "SELECT city, COUNT(*) FROM visits GROUP BY city",
    "SELECT flag, COUNT(DISTINCT person), AVG(amount) FROM visits WHERE weight IS NULL OR weight > -1e9 GROUP BY flag",
    "SELECT SUM(LENGTH(LEFT(city, 9))) FROM visits WHERE city LIKE '%o%' AND seen >= DATE '2020-01-01'",
    "SELECT SUM(m) FROM (SELECT person, MAX(n) AS m FROM visits GROUP BY person) t",
    'SELECT COUNT(*), SUM(removed_rows) FROM "visits.removed"',
)


def policy_of(scheme: str, most: int, declared: Mapping[str, Any] = COLUMNS) -> Policy:
    """Return the policy of such files."""
    return read_policy(
        {
            "name": "files",
            "source": f"{scheme}:data",
            "ledger": "sqlite:files.ledger",
            "budget": {"epsilon": 1000, "delta": 0.9, "query_delta": 0.01},
            "tables": {"visits": {"unit": "person", "rows_per_unit": most, "columns": dict(declared)}},
        }
    )


def alarms_of(sheets: Sheets, owner: int, folder: Path, dice: Dice, writers: Mapping[str, Writer]) -> Iterator[str]:
    """Report where one person's records change more than their own rows."""
    most = dice.choice([UNBOUNDED_ROWS, 2])
    policy = policy_of(sheets.scheme, most)
    variants = {"all": sheets, "without": sheets.without(owner), "hostile": sheets.with_hard(owner, dice)}
    with ExitStack() as stack:
        subjects: dict[str, Subject] = {}
        shown: dict[str, tuple[tuple[str, ...], ...]] = {}
        for name, variant in variants.items():
            variant.write(folder / name / "data" / "visits", writers)
            write_salt(folder / name)
            moved = move_policy(policy, folder / name, scheme=sheets.scheme)
            try:
                database = stack.enter_context(open_database(moved, folder / name, Seeded("coins")))
            except Refusal as refusal:
                yield f"{name} is refused: {refusal.code}"
                return
            subjects[name] = Subject(moved, engine_of(database))
            shown[name] = tuple(observe(database, sql) for sql in FILE_QUESTIONS[:_QUERIES_THROUGH_LEDGER])
        yield from _others(subjects)
        if most == UNBOUNDED_ROWS:
            yield from _truth(subjects, variants)
        for name in ("without", "hostile"):
            for sql, first, second in zip(FILE_QUESTIONS, shown["all"], shown[name], strict=False):
                if first != second or any(part.startswith("fault") for part in second):
                    yield f"{sql} shows something else {name}"
        for number, sql in enumerate(FILE_QUESTIONS):
            other = Other("without", subjects["without"], 1)
            for name in ("all", "hostile"):
                yield from (f"{sql}, {name}: {message}" for message in differences(subjects[name], other, sql, number))


def _others(subjects: Mapping[str, Subject]) -> Iterator[str]:
    """Compare the copies: they may differ only in the rows of one person."""
    rows = {name: _copy(subject) for name, subject in subjects.items()}
    remaining = rows["without"]
    for name in ("all", "hostile"):
        if remaining - rows[name]:
            yield f"{name}: {(remaining - rows[name]).total()} rows of others are missing or changed"
    own = {row[0] for row in rows["all"] - remaining}
    if len(own) > 1:
        yield f"the rows of {len(own)} people appeared with one person"
    if {row[0] for row in rows["hostile"] - remaining} - own:
        yield "hostile rows of one person became another's"


def _copy(subject: Subject) -> Counter[tuple[Any, ...]]:
    """Return the rows of the bounded copy, the opaque id first."""
    columns = ", ".join(f'"{name}"' for name in COLUMNS)
    return Counter(subject.engine._reader.rows(f"SELECT {columns} FROM {subject.engine._tables['visits']}"))  # noqa: S608


def _truth(subjects: Mapping[str, Subject], variants: Mapping[str, Sheets]) -> Iterator[str]:
    """Compare exact aggregates with what the files say."""
    for name in ("all", "without"):
        meant = expected_sums(variants[name])
        rows = _copy(subjects[name])
        places = {column: index for index, column in enumerate(COLUMNS)}
        if rows.total() != meant.rows:
            yield f"{name}: {rows.total()} of {meant.rows} rows are in the copy"
        for column, number in meant.counts.items():
            present = Counter({row: times for row, times in rows.items() if row[places[column]] is not None})
            if present.total() != number:
                yield f"{name}: {column} has {present.total()} values, and {number} were written"
        for column, total in meant.sums.items():
            facts = subjects[name].engine.catalog.tables["visits"].field(fold_name(column)).facts
            values = [(int(row[places[column]] or 0), times) for row, times in rows.items()]
            if facts.bounded:  # values outside are held one step beyond, and added up at the bound
                values = [(min(max(value, facts.low), facts.high), times) for value, times in values]
            found = sum(value * times for value, times in values)
            if found != total:
                yield f"{name}: {column} adds up to {found}, not {total}"


def try_seed(
    number: int, seed: object, folder: Path, writers: Mapping[str, Mapping[str, Writer]] = WRITERS
) -> list[str]:
    """Make up the source of this number, and say what is wrong."""
    dice = SeededDice((seed, number))
    scheme = dice.choice(sorted(writers))
    sheets = generate_files(scheme, sorted(writers[scheme]), dice)
    owner = dice.choice(sheets.owners)
    return list(alarms_of(sheets, owner, folder / str(number), dice, writers[scheme]))


def run(seed: object, folder: Path, number: int = 12) -> list[Finding]:
    """Try some sources."""
    for index in range(number):
        if messages := try_seed(index, seed, folder):
            return [Finding(NAME, f"source {index}: {messages[0]}")]
    return []


def main(arguments: Sequence[str], writers: Mapping[str, Mapping[str, Writer]] = WRITERS) -> int:
    """Try many sources and say how it goes; return 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m sfumato.lab.audits.files", description=__doc__)
    parser.add_argument("sources", type=int)
    parser.add_argument("--first", type=int, default=0, help="the number of the first source: go on from there")
    parser.add_argument("--seed", default="files")
    wanted = parser.parse_args(arguments)
    begun, wrong = monotonic(), 0
    for number in range(wanted.first, wanted.first + wanted.sources):
        with scratch() as folder:
            messages = try_seed(number, wanted.seed, folder, writers)
        wrong += bool(messages)
        for message in messages[:3]:
            sys.stdout.write(f"source {number}: {message}\n")
        if number % 50 == 49 or messages:
            sys.stdout.write(f"{number + 1 - wanted.first:,} sources, {wrong} wrong, {monotonic() - begun:.0f} s\n")
            sys.stdout.flush()
    sys.stdout.write(f"{wanted.sources:,} sources, {wrong} wrong, in {monotonic() - begun:.0f} s\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
