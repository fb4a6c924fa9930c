"""Differential fuzzing of the whole path: what neighbours show of a question, apart from noisy values, is equal.

Status, code, message, columns, price, margins, notes and what is left of the budget: all of it is a function of text,
policy and ledger. Random questions, hostile ones included, are asked of two neighbours with equal coins.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count, zip_longest
from pathlib import Path
from time import monotonic

from sfumato.database import Database
from sfumato.errors import BudgetExhausted, EngineFailed, Refusal
from sfumato.lab.audits.alarm import Finding
from sfumato.lab.audits.shrinking import shrink
from sfumato.lab.audits.subject import move_policy, open_database, schema_of, write_population
from sfumato.lab.generators.clinic import clinic
from sfumato.lab.generators.grammar import Grammar, GrammarTables
from sfumato.lab.generators.population import CANARY, WANDERER_ID, neighbour_of, populate
from sfumato.lab.generators.questions import questions
from sfumato.lab.generators.seeded import Seeded
from sfumato.lab.generators.seeded_random import SeededDice
from sfumato.policy.policy import Policy
from sfumato.release.notes import SELECTED, drop_noise_dependent_notes

NAME = "fuzzing"
EPSILON = "0.5"
_FAULT = "fault: "

ORACLES = (
    "1 / {column} > 0",
    "1 / ({column} - {column}) > 0",
    "CAST({column} AS integer) > 0",
    "CAST(CAST({column} AS text) AS integer) > 0",
    "CAST(CAST({column} AS text) || '-13-45' AS date) IS NULL",
    "{column} * {column} * {column} * {column} > 0",
    "{column} / -1 > 0 OR {column} % -1 = 0",
    "SQRT({column}) > 1 OR POWER({column}, 9) > 1",
    "LEFT('abc', {column}) = 'x'",
    "{column} || REPLACE({column}, 'o', 'oooooooooo') = 'x'",
)
"""Conditions that make other systems tell something by failing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A question of which two neighbours show something else, shortened, and what each showed."""

    sql: str
    short: str
    one: tuple[str, ...]
    other: tuple[str, ...]

    def __str__(self) -> str:
        faults = [part for part in (*self.one, *self.other) if part.startswith(_FAULT)][:1]
        shown = [f"{a} / {b}" for a, b in zip_longest(self.one, self.other, fillvalue="nothing") if a != b][:1]
        found = "" if self.short == self.sql else f" (found as: {self.sql})"
        return f"{self.short} shows {(faults or shown or ['another price'])[0]}{found}"


def observe(database: Database, sql: str) -> tuple[str, ...]:
    """Return all that an analyst sees of a question, except what noise decides.

    A failure of the engine, a failure that is no refusal, a refusal of what was quoted, and a message that repeats a
    value are faults by themselves.
    """
    shown: list[object] = []
    try:
        quote = database.explain(sql, epsilon=EPSILON)
        shown += [
            "quoted",
            quote.loss,
            drop_noise_dependent_notes(quote.notes),
            dict(quote.margins),
            dict(quote.mechanisms),
        ]
        release = database.ask(sql, epsilon=EPSILON)
        words = " ".join([*quote.notes, *quote.mechanisms.values()])
        # how many rows there are is decided by noise where it chose keys or cells
        free = "selected privately" in words or "HAVING" in sql or SELECTED in release.notes
        shown += [
            "answered",
            release.loss,
            drop_noise_dependent_notes(release.notes),
            release.columns,
            None if free else len(release),
        ]
        shown += [release.event, release.receipt.policy, release.receipt.timing]
    except EngineFailed:
        shown.append(f"{_FAULT}the engine failed")
    except Refusal as refusal:
        if shown and not isinstance(refusal, BudgetExhausted):
            shown.append(f"{_FAULT}{refusal.code} after a quote")
        shown += [refusal.code, str(refusal)]
        if CANARY in str(refusal):
            shown.append(f"{_FAULT}a message repeats a value")
    except Exception as error:  # whatever it is, no user may provoke it
        shown.append(f"{_FAULT}{type(error).__name__} is not a refusal")
    return tuple(map(str, shown))


def difference(first: Database, second: Database, sql: str) -> Difference | None:
    """Ask both; return a fault, or a difference in what they show or in what it cost, shortened."""
    if not _differs(first, second, sql) and first.budget().spent == second.budget().spent:
        return None
    short = shrink(sql, lambda text: _differs(first, second, text))
    return Difference(sql, short, observe(first, short), observe(second, short))


def _differs(one: Database, other: Database, sql: str) -> bool:
    first, second = observe(one, sql), observe(other, sql)
    return first != second or any(part.startswith(_FAULT) for part in (*first, *second))


def fuzz(first: Database, second: Database, queries: Iterable[str], seconds: float) -> tuple[Difference | None, int]:
    """Ask question after question until two neighbours differ or time is up; return also how many were asked."""
    end, number = monotonic() + seconds, 0
    for sql in queries:
        if monotonic() > end:
            break
        number += 1
        if found := difference(first, second, sql):
            return found, number
    return None, number


def generate_queries(schema: GrammarTables, seed: object) -> Iterator[str]:
    """Give questions for ever: plain ones, hostile conditions over every column and made-up ones by turns."""
    dice = SeededDice(f"{seed}/order")
    plain, hostile = dice.shuffled(questions(schema)), dice.shuffled(list(_hostile(schema)))
    grammar = Grammar(schema, SeededDice(seed))
    for pair in zip_longest(plain, hostile):
        yield from (sql for sql in (*pair, grammar.query()) if sql is not None)
    yield from (grammar.query() for _ in count())


def _hostile(schema: GrammarTables) -> Iterator[str]:
    for table in schema.tables:
        if table not in schema.public:
            for column in schema.tables[table]:
                yield from (f"SELECT COUNT(*) FROM {table} WHERE {oracle.format(column=column)}" for oracle in ORACLES)  # noqa: S608
                yield f"SELECT SUM(10 / {column}) FROM {table} WHERE {column} BETWEEN -3 AND 3"  # noqa: S608


@contextmanager
def neighbours(
    policy: Policy, folder: Path, seed: object, person: int = WANDERER_ID
) -> Iterator[tuple[Database, Database]]:
    """Open two databases over made-up people; in the second, one person is missing or another."""
    everybody = populate(policy, seed)
    with ExitStack() as stack:
        pair = []
        for name, population in (("all", everybody), ("other", neighbour_of(everybody, policy, seed, person))):
            write_population(population, folder / name)
            pair.append(
                stack.enter_context(open_database(move_policy(policy, folder / name), folder / name, Seeded(seed)))
            )
        yield pair[0], pair[1]


def audit(policy: Policy, folder: Path, seed: object, seconds: float) -> tuple[list[Finding], int]:
    """Fuzz a policy on made-up neighbours for a time; return also how many questions were asked."""
    with neighbours(policy, folder, seed) as (first, second):
        schema = schema_of(first.catalog)
        found, question_count = fuzz(first, second, generate_queries(schema, seed), seconds)
    return [] if found is None else [Finding(NAME, str(found))], question_count


def run(seed: object, folder: Path, seconds: float = 12.0) -> list[Finding]:
    """Fuzz the clinic for some seconds."""
    return audit(clinic(), folder, seed, seconds)[0]
