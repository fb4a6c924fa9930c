"""One sealed dataset: its key, manifest and store, and the derived keys of each table and batch."""

import hmac
from dataclasses import replace
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from sfumato.errors import BadPolicy, PolicyWeakened, UnknownName, quote_value
from sfumato.ledger.damage import damaged
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import open_ledger
from sfumato.policy.canonical import tables_digest
from sfumato.policy.policy import Policy, Sealing, fold_name
from sfumato.sealed.ashe import Ashe
from sfumato.sealed.keys import Key
from sfumato.sealed.layout import Layout, SealedColumn, layouts_of
from sfumato.sealed.manifest import BatchState, Keyring, SealedEpoch, SealedManifest
from sfumato.sealed.stores import CipherStore, open_store

_EPOCH_HEX_DIGITS = 12
_MAX_TABLE_NAME_BYTES = 40
"""PostgreSQL cuts names at 63 bytes; the rest is for the epoch."""


class Vault:
    """Key, manifest, store and layouts of a sealed dataset. Creating it checks the layouts."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.sealing = sealed_section(policy)
        if self.sealing.key.path is None:
            raise AssertionError("a key lies in a file")
        self.layouts = layouts_of(policy.tables, self.sealing.integrity)
        self.ring = Keyring(self.sealing.key.path)
        self.store: CipherStore = open_store(self.sealing.store)
        self._tokens: dict[tuple[str, str], npt.NDArray[np.int32]] = {}

    @property
    def key(self) -> Key:
        """The master key."""
        return self.ring.key

    def layout(self, table: str) -> Layout:
        """Return the layout of a table by its name, or refuse."""
        found = self.layouts.get(fold_name(table)) if isinstance(table, str) else None
        if found is None:
            raise UnknownName(
                f"There is no table {quote_value(table)} in this policy.",
                "Rows are sealed into a declared table.",
                f"There are: {', '.join(sorted(layout.table.name for layout in self.layouts.values())[:12])}.",
            )
        return found

    def words(self, layout: Layout) -> str:
        """Return the digest of the policy entries of a table."""
        return tables_digest(self.policy, [layout.table.name])

    def epoch_of(self, manifest: SealedManifest, layout: Layout) -> SealedEpoch | None:
        """Return the sealed epoch of a table; refuse a policy whose entries for it changed."""
        epoch = manifest.table(fold_name(layout.table.name))
        if epoch is not None and epoch.words != self.words(layout):
            raise PolicyWeakened(
                (
                    f"The policy's entries of {quote_value(layout.table.name)} differ from those that it was sealed "
                    "under."
                ),
                "Bounds, cells, rows per person and the price of sizes are part of what lies in the store.",
                "Restore them, or seal the rows again under the new ones: sfumato.sealed.database.rotate.",
            )
        return epoch

    def ashe(self, epoch: str, layout: Layout, column: SealedColumn, nonce: str) -> Ashe:
        """Return the encryption of one column in one batch."""
        labels = (epoch, fold_name(layout.table.name), *column.labels, "pads", nonce)
        return Ashe(self.key.derive(*labels), column.prime)

    def secret_factor(self, epoch: str, layout: Layout, column: SealedColumn) -> int:
        """Return the factor of a column's plaintexts, uniform on 1 … p - 1 up to 2^-128."""
        drawn = self.key.derive(epoch, fold_name(layout.table.name), *column.labels, "factor")
        return 1 + int.from_bytes(drawn, "big") % (column.prime - 1)

    def tokens(self, epoch: str, layout: Layout) -> npt.NDArray[np.int32]:
        """Return the token of each cell: a keyed permutation of the cells."""
        cache_key = (epoch, fold_name(layout.table.name))
        if cache_key not in self._tokens:
            self._tokens[cache_key] = self._permute_cells(*cache_key, len(layout.cells))
        return self._tokens[cache_key]

    def _permute_cells(self, epoch: str, table: str, cells: int) -> npt.NDArray[np.int32]:
        key = self.key.derive(epoch, table, "tokens")
        codes = [hmac.new(key, cell.to_bytes(8, "big"), sha256).digest() for cell in range(cells)]
        order = sorted(range(len(codes)), key=codes.__getitem__)
        tokens = np.empty(len(codes), dtype=np.int32)
        tokens[order] = np.arange(len(codes), dtype=np.int32)
        return tokens

    def stored_name(self, epoch: str, table: str) -> str:
        """Return the name of a table in the store: its own name and a code of the epoch."""
        short = table.encode()[:_MAX_TABLE_NAME_BYTES].decode("utf-8", "ignore")
        return f"{short} {self.key.derive(epoch, table, 'name').hex()[:_EPOCH_HEX_DIGITS]}"

    def open_ledger(self, manifest: SealedManifest, confirm: str | None = None) -> Ledger:
        """Open the ledger that was charged for the sealed data; refuse if its file is missing."""
        path = self.policy.ledger.path
        if manifest.ledger and path is not None and not path.exists():
            raise damaged(
                "Its file is gone, and what it paid for is still sealed.",
                "Restore the ledger and its anchor from a backup. A spent budget cannot start again at zero.",
            )
        return open_ledger(self.policy, confirm, manifest.ledger)

    def recover(self) -> None:
        """Remove batches that a dead process left unfinished. The caller holds the sealing lock."""
        manifest = self.ring.read(self.policy.name)
        if manifest.unfinished:
            with self.ring.changing():
                for name, table in (manifest.tables or {}).items():
                    for batch in table.batches:
                        if batch.state is BatchState.INTENDED:
                            self.store.delete(self.stored_name(manifest.epoch, name), batch.number)
                self.ring.write(_abort_intended(manifest, self.ring))


def _abort_intended(manifest: SealedManifest, ring: Keyring) -> SealedManifest:
    """Return the manifest with intended batches aborted; their sizes stay, once for the same rows."""
    for name, table in (manifest.tables or {}).items():
        batches = []
        for batch in table.batches:
            if batch.state is not BatchState.INTENDED:
                batches.append(batch)
            elif any(
                earlier.state is BatchState.ABORTED and earlier.digest == batch.digest for earlier in table.batches
            ):
                ring.forget_units(batch.nonce)  # a second attempt at the same rows, with the same sizes
            else:
                batches.append(replace(batch, state=BatchState.ABORTED))
        manifest = manifest.with_table(name, SealedEpoch(table.words, tuple(batches)))
    return manifest


def sealed_section(policy: Policy) -> Sealing:
    """Return the [sealed] section of a policy, or refuse a policy without one."""
    if policy.sealed is None:
        raise BadPolicy(
            "This policy has no [sealed].",
            "It says where the key and the store lie, and what the padded sizes cost.",
            "Add [sealed] in place of source, or open the policy with sfumato.open.",
        )
    return policy.sealed
