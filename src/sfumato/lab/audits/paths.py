"""Keys that lead to several people: a snapshot of such rows is refused, or one row would count for each of them.

Made-up people get keys that are their own, and then keys that they share. The first population has to be accepted, and
no person may move an answer about the rows of a path further than declared; the second has to be refused.
"""

from pathlib import Path

from sfumato.errors import BadSource
from sfumato.lab.audits.alarm import Finding
from sfumato.lab.audits.replay import compare, record
from sfumato.lab.audits.subject import Subject, open_subject
from sfumato.lab.generators.hospital import archive
from sfumato.lab.generators.population import WANDERER_ID, Population, neighbour_of, populate
from sfumato.policy.policy import Policy, UnitPath

NAME = "paths"


def audit(policy: Policy, folder: Path, seed: object) -> list[Finding]:
    """Audit the paths of a policy on made-up people; one without paths has nothing to audit."""
    tables = [table.name for table in policy.tables if isinstance(table.unit, UnitPath)]
    if not tables:
        return []
    own, shared = (populate(policy, seed, shared_keys=shares) for shares in (False, True))
    alarms = _audit_tables(policy, own, tables, folder / "own", seed)
    try:
        alarms += _audit_tables(policy, shared, tables, folder / "shared", seed)
    except BadSource:
        return alarms
    return [*alarms, Finding(NAME, f"{tables[0]}: a snapshot whose keys lead to several people was accepted")]


def _audit_tables(
    policy: Policy, population: Population, tables: list[str], folder: Path, seed: object
) -> list[Finding]:
    """Count the rows of paths in a population and in its neighbour."""
    other = neighbour_of(population, policy, seed, WANDERER_ID)
    with (
        open_subject(policy, population, folder / "all") as subject,
        open_subject(policy, other, folder / "other") as neighbour,
    ):
        return [alarm for table in tables for alarm in _compare_counts(subject, neighbour, table, seed)]


def _compare_counts(subject: Subject, neighbour: Subject, table: str, seed: object) -> list[Finding]:
    sql = f'SELECT COUNT(*) FROM "{table}"'  # noqa: S608
    first, second = (record(database, database.plan(sql), seed) for database in (subject, neighbour))
    return [Finding(NAME, f"{sql}: {message}") for message in compare(first, second, 1)]


def run(seed: object, folder: Path) -> list[Finding]:
    """Audit the archive, whose doses belong to people by the stays that they name."""
    return audit(archive(), folder, seed)
