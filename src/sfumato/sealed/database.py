"""Sealed databases: `seal` rows into a store without plaintext, `open_sealed` to query, `rotate` to change keys."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from sfumato.database import Database
from sfumato.errors import BadParameter, BadPolicy, WrongKey, quote_value
from sfumato.ledger.history import HISTORY_PAGE_ENTRIES
from sfumato.ledger.ledger import Budget, Entry, Verified
from sfumato.planning.quote import Quote
from sfumato.policy.accounts import account_of
from sfumato.policy.policy import Location, Policy, fold_name
from sfumato.policy.reading import read_policy
from sfumato.policy.sealing import are_apart
from sfumato.prepare import RequestedPrice
from sfumato.randomness.source import system_source
from sfumato.release.release import Release
from sfumato.sealed.batches import Batch, seal_batch
from sfumato.sealed.cells import check_all_cells
from sfumato.sealed.engine import SealedEngine
from sfumato.sealed.keys import create_key
from sfumato.sealed.manifest import SealedManifest, fresh_hex
from sfumato.sealed.vault import Vault, sealed_section
from sfumato.secure_files import refusing_paths

__all__ = ["Batch", "SealedDatabase", "open_sealed", "rotate", "seal"]

PolicyFile = str | Path | dict[str, object]


class SealedDatabase:
    """A sealed dataset under its policy, for one account. It works as `Database`; only the engine differs."""

    def __init__(self, database: Database, engine: SealedEngine, vault: Vault) -> None:
        self._database = database
        self._engine = engine
        self._vault = vault

    def ask(
        self,
        sql: str,
        *,
        epsilon: object = None,
        within: object = None,
        share: object = None,
        delta: object = None,
        key: str | None = None,
    ) -> Release:
        """Charge and return a private answer, or refuse. A store that was changed stays refused."""
        release = self._database.ask(sql, epsilon=epsilon, within=within, share=share, delta=delta, key=key)
        return replace(release, noted=release.noted.after(self._leak_notes()))

    def explain(
        self, sql: str, *, epsilon: object = None, within: object = None, share: object = None, delta: object = None
    ) -> Quote:
        """Return price, margins and mechanisms. This is free and does not contact the store."""
        quote = self._database.explain(sql, epsilon=epsilon, within=within, share=share, delta=delta)
        return replace(quote, notes=(*self._leak_notes(), *quote.notes))

    def _leak_notes(self) -> tuple[str, ...]:
        """Return the notes about what the store learns beyond padded sizes, as the data owner has accepted."""
        joined = sorted(layout.table.name for layout in self._vault.layouts.values() if layout.joins)
        if not joined:
            return ()
        tables = ", ".join(joined)
        return (f"The store can see which rows of {tables} are of one person, because they were sealed for joins.",)

    def statements(self, sql: str, *, epsilon: object = None, within: object = None) -> tuple[str, ...]:
        """Return the statements for the store: they contain column names of the store and no text of the query."""
        wish = epsilon if epsilon is not None or within is not None else self._database.policy.budget.epsilon
        job = self._database.prepare(sql, None, RequestedPrice(wish, within)).job
        return tuple(statement.sql for statement in self._engine.statements(job))

    def check(self) -> None:
        """Compare every cell of every table with the manifest, or refuse with `StoreTampered`."""
        self._database.budget()  # an open handle
        check_all_cells(self._vault)

    def budget(self) -> Budget:
        """Return the total, spent and remaining budget of this account."""
        return self._database.budget()

    def history(self, limit: object = HISTORY_PAGE_ENTRIES, before: object = None) -> tuple[Entry, ...]:
        """Return the charges of this account, newest first, including those for padded sizes."""
        return self._database.history(limit, before)

    def verify(self) -> Verified:
        """Replay the ledger's hash chain and its sums with the second reader, or refuse."""
        return self._database.verify()

    def close(self) -> None:
        """Close the engine and the ledger. Closing twice is fine."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Sealed{self._database!r}"


@refusing_paths(BadPolicy)
def seal(policy: PolicyFile, table: str, rows: pa.Table) -> Batch:
    """Seal rows into a table of the policy's store, as one atomic batch.

    The first `rows_per_unit` rows of each unit are kept, over all batches. The first batch of a table is charged for
    the padded sizes; later ones are free. Whether and when a batch is sealed must not depend on a single unit.
    """
    vault = Vault(read_policy(policy))
    vault.layout(table)
    with vault.ring.sealing():
        if vault.ring.exists():
            vault.recover()
        else:
            vault.ring.write(SealedManifest(vault.policy.name, fresh_hex(), fresh_hex()))
        return seal_batch(vault, table, rows)


@refusing_paths(BadPolicy)
def open_sealed(policy: PolicyFile, *, analyst: str | None = None, confirm: str | None = None) -> SealedDatabase:
    """Open a sealed dataset for queries; `analyst` spends from that analyst's budget within the dataset's."""
    policy_read = read_policy(policy)
    vault = Vault(policy_read)
    account = "" if analyst is None else account_of(policy_read, analyst)
    manifest = vault.ring.read(policy_read.name)
    for layout in vault.layouts.values():
        vault.epoch_of(manifest, layout)
    if manifest.unfinished:
        with vault.ring.sealing(wait=False) as held:
            if held:
                vault.recover()
    ledger = vault.open_ledger(manifest, confirm)
    engine = SealedEngine(vault)
    return SealedDatabase(Database(policy_read, account, engine, ledger, system_source()), engine, vault)


@refusing_paths(BadPolicy)
def rotate(
    policy: PolicyFile, new_key: str | Path, rows: Mapping[str, pa.Table], *, confirm: str | None = None
) -> None:
    """Seal all rows again with the key at `new_key` (created if missing), in a new epoch that is charged again.

    The tables of the old epoch are dropped at the end. Afterwards the policy must name the new key. The policy of the
    tables may have changed: `confirm` is its hash, as for `sfumato.open`.
    """
    policy_read = read_policy(policy)
    old = Vault(policy_read)
    path = Path(new_key).absolute()
    if not path.exists():
        create_key(path)
    new = Vault(_with_key(policy_read, path))
    same = path.samefile(old.ring.path)
    with old.ring.sealing():
        before = _old_manifest(old)
        _require_all(before, old, rows)
        new.open_ledger(before, confirm).close()
        # queries with the old key wait, and are then refused
        with nullcontext() if same else new.ring.sealing(), nullcontext() if same else old.ring.changing():
            old_tables = (*before.old, *_stored_names(old, before))
            if not same and new.ring.exists():
                old_tables = (*old_tables, *_leftover_tables(new))
            new.ring.write(
                SealedManifest(policy_read.name, fresh_hex(), fresh_hex(), old=old_tables, ledger=before.ledger)
            )
            for name, table in rows.items():
                seal_batch(new, name, table)
            with new.ring.changing():
                for stored in old_tables:
                    new.store.drop(stored)
                new.ring.write(replace(new.ring.read(policy_read.name), old=()))
            if not same:
                old.ring.write(SealedManifest(policy_read.name, fresh_hex(), fresh_hex(), rotated=True))


def _with_key(policy: Policy, path: Path) -> Policy:
    sealing = replace(sealed_section(policy), key=Location("file", str(path), path))
    if not are_apart(sealing.key, sealing.store):
        raise BadParameter(
            "The new key lies in the folder of the store, or below it.",
            "Anyone who can read both the key and the store can read the data.",
            "Name a file in another folder.",
        )
    return replace(policy, sealed=sealing)


def _old_manifest(old: Vault) -> SealedManifest:
    """Return the manifest of the old key; an empty one if it is damaged or missing, as the data owner has the rows."""
    try:
        return old.ring.read(old.policy.name)
    except WrongKey:
        if old.ring.is_rotated():
            raise
        return SealedManifest(old.policy.name, "", "")


def _require_all(before: SealedManifest, old: Vault, rows: Mapping[str, pa.Table]) -> None:
    table_names = {fold_name(old.layout(name).table.name) for name in rows}
    missing = sorted(set(before.tables or {}) - table_names)
    if missing or len(table_names) != len(rows):
        raise BadParameter(
            f"The rows of {quote_value(missing[0])} are missing." if missing else "A table is named twice.",
            "The store cannot be decrypted, so rows that are not sealed again are lost.",
            "Give the rows of every table that was sealed, each once.",
        )


def _stored_names(vault: Vault, manifest: SealedManifest) -> tuple[str, ...]:
    return tuple(vault.stored_name(manifest.epoch, name) for name in manifest.tables or {})


def _leftover_tables(new: Vault) -> tuple[str, ...]:
    """Return the tables that an unfinished rotation to this key left in the store; refuse a key in use."""
    manifest = new.ring.read(new.policy.name)
    if manifest.tables and not manifest.old:
        raise BadParameter(
            "The new key is in use.", "A database was sealed with it already.", "Name a file that does not exist yet."
        )
    return (*manifest.old, *_stored_names(new, manifest))
