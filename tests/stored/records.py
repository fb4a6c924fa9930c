"""Texts that are stored or compared: recorded once by a released version; later versions must produce the same.

`python -m tests.stored.records` records them again. Do that only when a stored format changes on purpose: answers that
are already paid for would be charged again.
"""

import gzip
import json
import shutil
from collections.abc import Iterator
from datetime import date, datetime
from fractions import Fraction
from hashlib import sha256
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.paths.worlds import WITH_TOTAL, World, a_world, policy, write

import sfumato
from sfumato.accounting.event import Neighbours
from sfumato.errors import EngineFailed
from sfumato.lab.generators.clinic import VISITS
from sfumato.local.direct import DirectResponse
from sfumato.local.hadamard import HadamardResponse
from sfumato.local.hashed import HashedResponse
from sfumato.local.mean import HybridMean, OneBitMean, PiecewiseMean
from sfumato.local.projective import ProjectiveResponse
from sfumato.local.rappor import Rappor
from sfumato.local.sketch import CountMeanSketch, HadamardSketch
from sfumato.local.subset import SubsetResponse
from sfumato.local.unary import UnaryResponse
from sfumato.policy.canonical import canonical_text, policy_hash, tables_digest, tables_hash
from sfumato.policy.reading import read_policy
from sfumato.prepare import RequestedPrice
from sfumato.streams.plans import GaussianSums, PeriodTables, TreeSums, UnboundedSums, WindowEvents
from sfumato.streams.stored_plan import StreamHeader, head_to_bytes

HERE = Path(__file__).resolve().parent
TEXTS = HERE / "texts.json"
"""Policy hashes, fingerprints of queries, heads of streams and names of local mechanisms."""
ANSWERS = HERE / "answers.json"
"""The snapshot's id, and every answer of the stored ledger as it was first given."""
LEDGER = HERE / "clinic.ledger.gz"
ANCHOR = HERE / "clinic.ledger.anchor"
DELTA = "1e-7"
QUERIES: tuple[str, ...] = tuple(json.loads(TEXTS.read_text(encoding="utf-8"))["queries"])
"""The queries that were recorded: every accepted shape of that version."""
CHANGED = frozenset(query for query in QUERIES if "COUNT(DISTINCT" in query or "COUNT_DISTINCT" in query)
"""Counted by another mechanism since 0.9.0, so that an older answer is another measurement."""
WORKLOAD = QUERIES[0], QUERIES[7], QUERIES[29]
_CHOSEN = {
    **VISITS,
    "cost": {**VISITS["cost"], "bounds": {"within": [-5, 10], "choose": "private"}},
}


def worlds_policies(folder: Path) -> dict[str, dict[str, Any]]:
    """Return policies that differ in what they promise, by a name for each."""
    chosen = {"rows_per_unit": {"most": 40, "choose": "private"}, "columns": _CHOSEN}
    return {
        "plain": policy(folder),
        "replace": policy(folder, neighbours="replace"),
        "totals": policy(folder, visits={"columns": WITH_TOTAL}),
        "groups": policy(folder, visits={"groups_per_unit": 2}),
        "chosen": policy(folder, visits=chosen),
        "truncation": policy(folder, budget={"epsilon": 1000, "delta": 0.001, "truncation": 1}),
        "analysts": policy(folder, analysts={"press": {"epsilon": 5}}, answers="shared"),
    }


def world() -> World:
    """Return the rows of the stored ledger's clinic."""
    return a_world(11, people=40)


def texts() -> dict[str, Any]:
    """Return every text that must not change, computed by the code as it is."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, world())
        found: dict[str, Any] = {"queries": QUERIES, "policies": {}, "fingerprints": {}}
        for label, words in worlds_policies(folder).items():
            read = read_policy(words)
            found["policies"][label] = {
                "text": _digest(canonical_text(read)),
                "policy": policy_hash(read),
                "tables": tables_hash(read),
                "about": {table.name: tables_digest(read, [table.name]) for table in read.tables},
            }
        for label in ("plain", "totals", "groups", "chosen"):
            own = folder / label
            write(own, world())
            with sfumato.open(worlds_policies(own)[label]) as database:
                found["fingerprints"][label] = dict(_fingerprints(label, database))
    found["streams"] = {
        type(plan).__name__: head_to_bytes(StreamHeader("id", plan, 7, "what")).decode() for plan in _plans()
    }
    found["local"] = [repr(mechanism) for mechanism in _mechanisms()]
    return found


def _fingerprints(label: str, database: sfumato.Database) -> Iterator[tuple[str, str]]:
    """Give each query with the digest of its fingerprint at several prices.

    Where several plans may answer, it is the one that was recorded: a release that is stored by it is found.
    """
    recorded = json.loads(TEXTS.read_text(encoding="utf-8"))["fingerprints"][label]
    for sql in QUERIES:
        try:
            asked = [
                [names.by_text for _, names in database.prepare(sql, None, _price(epsilon)).plans]
                for epsilon in ("1", "0.01")
            ]
        except EngineFailed:
            raise
        except sfumato.Refusal as refusal:
            asked = [[refusal.code]]
        digests = [_digest(json.dumps(texts)) for texts in product(*asked)]
        yield sql, recorded[sql] if recorded.get(sql) in digests else digests[0]


def _price(epsilon: str) -> RequestedPrice:
    return RequestedPrice(epsilon, None, None, DELTA)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _plans() -> Iterator[Any]:
    add = Neighbours.ADD_REMOVE
    yield GaussianSums(8, Fraction(3), add, cells=2, scale=4)
    yield TreeSums(8, Fraction(5), add, cells=2)
    yield PeriodTables(8, Fraction(5), add, cells=2)
    yield UnboundedSums(Fraction(1, 2), add, cells=2, first=2)
    yield WindowEvents(Fraction(4), 3, add, cells=2)


def _mechanisms() -> Iterator[object]:
    one = Fraction(1)
    for kind in (DirectResponse, HadamardResponse, HashedResponse, ProjectiveResponse, SubsetResponse, UnaryResponse):
        yield kind(one, 16)
    yield CountMeanSketch(one, 16, 4)
    yield HadamardSketch(one, 16, 4)
    yield Rappor(16, 2, Fraction(1, 2), Fraction(1, 2), Fraction(3, 4))
    yield OneBitMean(one, 16)
    yield PiecewiseMean(one, 16)
    yield HybridMean(one, 16)


def answers(database: sfumato.Database) -> dict[str, Any]:
    """Ask everything that has not changed, and return the receipts and the rows."""
    found: dict[str, Any] = {}
    for sql in (query for query in QUERIES if query not in CHANGED):
        answer = database.ask(sql, epsilon=1, delta=DELTA)
        found[sql] = [answer.receipt.id, as_data(answer.rows())]
    for number, answer in enumerate(database.ask_all(list(WORKLOAD), epsilon=1, delta=DELTA)):
        found[f"workload {number}"] = [answer.receipt.id, as_data(answer.rows())]
    within = database.ask(QUERIES[29], within={"n": 9})
    found["within"] = [within.receipt.id, as_data(within.rows())]
    share = database.ask(QUERIES[7], share="0.001")
    found["share"] = [share.receipt.id, as_data(share.rows())]
    return found


def as_data(rows: Any) -> Any:
    """Return rows as JSON holds them."""
    if isinstance(rows, list | tuple):
        return [as_data(part) for part in rows]
    if isinstance(rows, dict):
        return {name: as_data(part) for name, part in rows.items()}
    if isinstance(rows, date | datetime | Fraction):
        return str(rows)
    return rows if rows is None or isinstance(rows, bool | int | str) else repr(rows)


def manifest_of(folder: Path) -> Path:
    """Return the file that names the current copy beside a ledger."""
    return folder / "clinic.ledger.copy.manifest"


def restore(folder: Path) -> None:
    """Put the stored ledger, and the id of the snapshot that it paid for, in the place of a clinic's own."""
    ledger = folder / "clinic.ledger"
    for path in (ledger, folder / "clinic.ledger.anchor"):
        path.unlink()
    ledger.touch(mode=0o600)
    ledger.write_bytes(gzip.decompress(LEDGER.read_bytes()))
    anchor = folder / "clinic.ledger.anchor"
    anchor.touch(mode=0o600)
    anchor.write_bytes(ANCHOR.read_bytes())
    stored = json.loads(ANSWERS.read_text(encoding="utf-8"))
    manifest = json.loads(manifest_of(folder).read_text(encoding="utf-8"))
    manifest |= {"version": stored["version"], "ledger": stored["ledger"]}
    manifest_of(folder).write_text(json.dumps(manifest), encoding="utf-8")


def record() -> None:
    """Write the fixtures."""
    TEXTS.write_text(json.dumps(texts(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, world())
        with sfumato.open(policy(folder)) as database:
            given = answers(database)
        manifest = json.loads(manifest_of(folder).read_text(encoding="utf-8"))
        content = {"version": manifest["version"], "ledger": manifest["ledger"], "answers": given}
        ANSWERS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        LEDGER.write_bytes(gzip.compress((folder / "clinic.ledger").read_bytes(), mtime=0))
        shutil.copy(folder / "clinic.ledger.anchor", ANCHOR)


if __name__ == "__main__":
    record()
