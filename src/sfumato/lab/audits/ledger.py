"""The audit of the ledger: what is charged, when, to which account, for which data; and that refusals are as stated."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.database import Database
from sfumato.engines.engine import Histograms, Job, SelectedBounds
from sfumato.errors import BudgetExhausted, EngineFailed, Refusal
from sfumato.lab.audits.alarm import Finding
from sfumato.lab.audits.subject import move_policy, open_database, write_population
from sfumato.lab.generators.clinic import clinic
from sfumato.lab.generators.population import HIGH_ID, populate
from sfumato.lab.generators.seeded import Seeded
from sfumato.policy.policy import Budget, Policy

NAME = "books"
REPEATED_QUESTION = "SELECT COUNT(*) AS n FROM visits"
REFUSED_QUESTIONS = (
    ("SELECT SUM(score) FROM visits", "unbounded_sum"),
    ("SELECT SUM(weight) FROM visits", "unbounded_sum"),
    ("SELECT city FROM visits", "raw_rows"),
    ("SELECT patient_id, COUNT(*) FROM visits GROUP BY patient_id", "unit_revealed"),
    ("SELECT COUNT(*) FROM visits JOIN survey ON visits.city = survey.mood", "unsafe_join"),
    ("SELECT COUNT(*) FROM staff LEFT JOIN visits USING (dept)", "unsafe_join"),
    (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 4) COUNT(*) FROM visits",
        "loosened_policy",
    ),
)
_FORKING = """
import os
from sfumato.randomness.source import system_source
system_source().read(16)
reading, writing = os.pipe()
if not os.fork():
    os.write(writing, system_source().read(16))
    os._exit(0)
mine = system_source().read(16)
print(mine.hex(), os.read(reading, 16).hex())
os.wait()
"""


class _Watched:
    """An engine that records its runs and fails on request."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.fails = False
        self.told: list[Any] = []
        self.listener: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run_selection(self, job: Job) -> Histograms:
        self._tell()
        found: Histograms = self._engine.run_selection(job)
        return found

    def run(self, job: Job, selected: SelectedBounds | None = None, histograms: Histograms | None = None) -> Any:
        self._tell()
        return self._engine.run(job, selected, histograms)

    def _tell(self) -> None:
        self.told.append(self.listener() if self.listener else None)
        if self.fails:
            raise EngineFailed()


def run(seed: object, folder: Path) -> list[Finding]:
    """Audit the books of the clinic."""
    policy, people = clinic(), populate(clinic(), seed)
    write_population(people, folder / "one")
    here = move_policy(policy, folder / "one", ample=False)
    messages = list(_charges(here, folder, seed))
    messages += _accounts(here, folder, seed)
    write_population(people.without(str(HIGH_ID)), folder / "one")  # the data changed
    messages += _versions(here, folder, seed)
    write_population(people, folder / "two")
    messages += _caps(move_policy(policy, folder / "two", ample=False), folder, seed)
    messages += _seeds()
    return [Finding(NAME, message) for message in messages]


def _charges(policy: Policy, folder: Path, seed: object) -> Iterator[str]:
    with open_database(policy, folder, Seeded(seed)) as database:
        engine = _Watched(database.engine)
        engine.listener = lambda: [entry.state for entry in database.history()]
        watched = Database(database.policy, "", engine, database.payer.ledger, Seeded(seed))
        quote = watched.explain(REPEATED_QUESTION, epsilon="1/2")
        if engine.told or watched.budget().spent.epsilon:
            yield "a quote read data or cost something"
        release = watched.ask(REPEATED_QUESTION, epsilon="1/2")
        if engine.told != [["reserved"]] * 2:  # bounds are selected, then all else is measured
            yield "data was read before the charge was written down"
        entries = watched.history()
        if [entry.event for entry in entries] != [release.event] or entries[0].loss != quote.loss:
            yield "what was charged is not what was released"
        if not watched.budget().spent.epsilon:
            yield "an answer cost nothing"
        spent, again = watched.budget().spent, watched.ask(REPEATED_QUESTION, epsilon="1/2")
        if (again.rows(), again.receipt) != (release.rows(), release.receipt) or watched.budget().spent != spent:
            yield "the same question is not the same answer at no cost"
        engine.fails = True
        yield from _failure(watched, spent)
        for sql, code in REFUSED_QUESTIONS:
            if (refused := _code(watched, sql)) != code:
                yield f"{sql} is {refused}, not {code}"
        watched.verify()


def _failure(database: Database, before: Any) -> Iterator[str]:
    try:
        database.ask("SELECT COUNT(*) AS n FROM patients", epsilon="1/2")
        yield "an answer without data"
    except EngineFailed:
        pass
    if database.budget().spent.epsilon <= before.epsilon:
        yield "a question that was started and failed was refunded"
    if database.history()[0].state != "failed":
        yield "a failed question is not in the books as failed"


def _code(database: Database, sql: str) -> str:
    try:
        database.explain(sql, epsilon="1/2")
    except EngineFailed:
        raise
    except Refusal as refusal:
        return refusal.code
    return "answered"


def _accounts(policy: Policy, folder: Path, seed: object) -> Iterator[str]:
    receipts = []
    for account in ("ada", "bob"):
        with open_database(policy, folder, Seeded((seed, account)), account) as database:
            whole = database.payer.ledger.budget().spent
            receipts.append(database.ask(REPEATED_QUESTION, epsilon="1/2").receipt.id)
            if not database.budget().spent.epsilon:
                yield f"{account} was answered at no cost to their own budget"
            if database.payer.ledger.budget().spent.epsilon <= whole.epsilon:
                yield f"{account} was answered at no cost to the dataset"
    if len(set(receipts)) < 2:
        yield "an answer was kept across analysts"


def _versions(policy: Policy, folder: Path, seed: object) -> Iterator[str]:
    with open_database(policy, folder, Seeded((seed, "later"))) as database:
        before = {entry.version: entry.receipt for entry in database.history()}
        spent = database.budget().spent
        database.refresh()
        release = database.ask(REPEATED_QUESTION, epsilon="1/2")
        if release.receipt.version in before:
            yield "a new snapshot has an old id"
        if release.receipt.id in before.values() or database.budget().spent.epsilon <= spent.epsilon:
            yield "an answer was kept across snapshots of the data"


def _caps(policy: Policy, folder: Path, seed: object) -> Iterator[str]:
    whole = replace(policy, budget=Budget(Fraction(1), Fraction(0), Fraction(0)), analysts=())
    with open_database(whole, folder, Seeded((seed, "caps"))) as database:
        queries = [f"{REPEATED_QUESTION} WHERE age > {age}" for age in range(5)]
        answered = 0
        try:
            for sql in queries:
                database.ask(sql, epsilon="1/4")
                answered += 1
        except BudgetExhausted:
            pass
        if answered != 4 or database.budget().spent.epsilon != 1:
            yield f"a budget of 1 paid for {answered} questions of 1/4"
        versions = {entry.version for entry in database.history()}
    with open_database(
        replace(policy, ledger=replace(policy.ledger, path=folder / "two" / "other.ledger")), folder, Seeded(1)
    ) as other:
        if other.version in versions:
            yield "the version of the data is a digest of its content"


def _seeds() -> Iterator[str]:
    """Two processes of one origin draw different coins."""
    done = subprocess.run([sys.executable, "-c", _FORKING], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    mine, _, theirs = done.stdout.strip().partition(" ")
    if not mine or mine == theirs:
        yield "a forked process draws the coins of its parent"
