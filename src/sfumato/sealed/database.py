"""A sealed database: `seal` rows into a store that sees no plaintext, `open_sealed` to ask, `rotate` to begin anew."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from sfumato.database import Database
from sfumato.errors import BadParameter, WrongKey, quote_value
from sfumato.ledger.history import HISTORY_PAGE
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
from sfumato.sealed.cells import check_all
from sfumato.sealed.engine import SealedEngine
from sfumato.sealed.keys import create_key
from sfumato.sealed.manifest import SealedManifest, fresh_hex
from sfumato.sealed.vault import Vault, sealing_of

__all__ = ["Batch", "SealedDatabase", "open_sealed", "rotate", "seal"]

PolicyFile = str | Path | dict[str, object]


class SealedDatabase:
    """A sealed dataset under its policy, for one account. It asks as `Database` does; only the engine differs."""

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
        """Return a private answer and charge it, or refuse; a store that was changed is refused, and stays so."""
        release = self._database.ask(sql, epsilon=epsilon, within=within, share=share, delta=delta, key=key)
        return replace(release, notes=(*self._leaks(), *release.notes))

    def explain(
        self, sql: str, *, epsilon: object = None, within: object = None, share: object = None, delta: object = None
    ) -> Quote:
        """Return price, margins and mechanisms. The store is not asked, and it is free."""
        quote = self._database.explain(sql, epsilon=epsilon, within=within, share=share, delta=delta)
        return replace(quote, notes=(*self._leaks(), *quote.notes))

    def _leaks(self) -> tuple[str, ...]:
        """What every answer says where the owner has accepted that the store learns more than padded sizes."""
        joined = sorted(layout.table.name for layout in self._vault.layouts.values() if layout.joins)
        if not joined:
            return ()
        named = ", ".join(joined)
        return (f"The store can see which rows of {named} are of one person, because they were sealed for joins.",)

    def statements(self, sql: str, *, epsilon: object = None, within: object = None) -> tuple[str, ...]:
        """Return what the store would be sent: names of its columns, and no word of the question."""
        wish = epsilon if epsilon is not None or within is not None else self._database.policy.budget.epsilon
        job = self._database.prepare(sql, None, RequestedPrice(wish, within)).job
        return tuple(statement.sql for statement in self._engine.statements(job))

    def check(self) -> None:
        """Compare every cell of every table with the manifest, or refuse with `StoreTampered`."""
        self._database.budget()  # an open handle
        check_all(self._vault)

    def budget(self) -> Budget:
        """Return what this account may spend in all, what it has spent and what is left."""
        return self._database.budget()

    def history(self, limit: object = HISTORY_PAGE, before: object = None) -> tuple[Entry, ...]:
        """Return what was charged to this account, newest first; the padded sizes are among it."""
        return self._database.history(limit, before)

    def verify(self) -> Verified:
        """Replay the ledger's hash chain and its sums with the second reader, or refuse."""
        return self._database.verify()

    def close(self) -> None:
        """Let go of the engine and the ledger. Closing twice is fine."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Sealed{self._database!r}"


def seal(policy: PolicyFile, table: str, rows: pa.Table) -> Batch:
    """Seal rows into a table of the policy's store, as one batch; whole or not at all.

    Of each person the first `rows_per_unit` rows are kept, over all batches. The first batch of a table is charged
    with what its padded sizes cost; later ones are free. That a batch is sealed, and when, must not depend on a person.
    """
    vault = Vault(read_policy(policy))
    vault.layout(table)
    with vault.ring.sealing():
        if vault.ring.exists():
            vault.recover()
        else:
            vault.ring.write(SealedManifest(vault.policy.name, fresh_hex(), fresh_hex()))
        return seal_batch(vault, table, rows)


def open_sealed(policy: PolicyFile, *, analyst: str | None = None, confirm: str | None = None) -> SealedDatabase:
    """Open a sealed dataset to ask questions; `analyst` spends from that analyst's budget inside the dataset's."""
    read = read_policy(policy)
    vault = Vault(read)
    account = "" if analyst is None else account_of(read, analyst)
    manifest = vault.ring.read(read.name)
    for layout in vault.layouts.values():
        vault.epoch_of(manifest, layout)
    if manifest.unfinished:
        with vault.ring.sealing(wait=False) as held:
            if held:
                vault.recover()
    ledger = vault.open_ledger(manifest, confirm)
    engine = SealedEngine(vault)
    return SealedDatabase(Database(read, account, engine, ledger, system_source()), engine, vault)


def rotate(
    policy: PolicyFile, new_key: str | Path, rows: Mapping[str, pa.Table], *, confirm: str | None = None
) -> None:
    """Seal all rows anew, with the key at `new_key` (made if there is none), in a new epoch that is charged again.

    The tables of the old epoch are dropped when everything is in the new one. Afterwards the policy names the new key.
    The policy may say something else about its tables by then: `confirm` is its hash, as for `sfumato.open`.
    """
    read = read_policy(policy)
    old = Vault(read)
    path = Path(new_key).absolute()
    if not path.exists():
        create_key(path)
    new = Vault(_with_key(read, path))
    same = path.samefile(old.ring.path)
    with old.ring.sealing():
        before = _unfinished_or_old(old)
        _require_all(before, old, rows)
        new.open_ledger(before, confirm).close()
        # whoever asks with the old key waits, and finds that it was rotated
        with nullcontext() if same else new.ring.sealing(), nullcontext() if same else old.ring.changing():
            leaving = (*before.old, *_stored_names(old, before))
            if not same and new.ring.exists():
                leaving = (*leaving, *_taken_up(new))
            new.ring.write(SealedManifest(read.name, fresh_hex(), fresh_hex(), old=leaving, ledger=before.ledger))
            for name, table in rows.items():
                seal_batch(new, name, table)
            with new.ring.changing():
                for stored in leaving:
                    new.store.drop(stored)
                new.ring.write(replace(new.ring.read(read.name), old=()))
            if not same:
                old.ring.write(SealedManifest(read.name, fresh_hex(), fresh_hex(), rotated=True))


def _with_key(policy: Policy, path: Path) -> Policy:
    sealing = replace(sealing_of(policy), key=Location("file", str(path), path))
    if not are_apart(sealing.key, sealing.store):
        raise BadParameter(
            "The new key lies in the folder of the store, or below it.",
            "Anyone who can read both the key and the store can read the data.",
            "Name a file in another folder.",
        )
    return replace(policy, sealed=sealing)


def _unfinished_or_old(old: Vault) -> SealedManifest:
    """Return what the old key sealed; nothing, where its manifest is damaged or gone: the rows are the owner's."""
    try:
        return old.ring.read(old.policy.name)
    except WrongKey:
        if old.ring.is_rotated():
            raise
        return SealedManifest(old.policy.name, "", "")


def _require_all(before: SealedManifest, old: Vault, rows: Mapping[str, pa.Table]) -> None:
    given = {fold_name(old.layout(name).table.name) for name in rows}
    lost = sorted(set(before.tables or {}) - given)
    if lost or len(given) != len(rows):
        raise BadParameter(
            f"The rows of {quote_value(lost[0])} are missing." if lost else "A table is named twice.",
            "The store cannot be decrypted, so rows that are not sealed again are lost.",
            "Give the rows of every table that was sealed, each once.",
        )


def _stored_names(vault: Vault, manifest: SealedManifest) -> tuple[str, ...]:
    return tuple(vault.stored_name(manifest.epoch, name) for name in manifest.tables or {})


def _taken_up(new: Vault) -> tuple[str, ...]:
    """Return what an unfinished rotation to this key left in the store; refuse a key that is in use."""
    manifest = new.ring.read(new.policy.name)
    if manifest.tables and not manifest.old:
        raise BadParameter(
            "The new key is in use.", "A database was sealed with it already.", "Name a file that does not exist yet."
        )
    return (*manifest.old, *_stored_names(new, manifest))
