"""Decrypt and check the sum of every cell; refuse sums that no honest store can return."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from sfumato.policy.policy import fold_name
from sfumato.sealed.layout import LIMB_BITS, Layout, SealedColumn
from sfumato.sealed.manifest import SealedEpoch, SealedManifest, store_tampered
from sfumato.sealed.stores import sums_statement
from sfumato.sealed.vault import Vault

Sums = TypeVar("Sums")


@dataclass(frozen=True, slots=True, repr=False)
class CellSums:
    """Count and sum above the lower bound, by column and cell: secret."""

    found: Mapping[tuple[str, str, str], list[tuple[int, int]]]

    def of(self, column: SealedColumn, cell: int) -> tuple[int, int]:
        """Return the count and the sum of one cell."""
        return self.found[column.labels][cell]


def cell_sums(vault: Vault, table: str, columns: tuple[SealedColumn, ...]) -> CellSums:
    """Fetch the sums of some columns over all cells, and decrypt them; refuse a store that was changed."""
    layout, limbs = vault.layouts[table], [limb for column in columns for limb in column.limbs]
    return ask_store(
        vault,
        lambda epoch: sums_statement(vault.stored_name(epoch, table), limbs),
        lambda manifest, rows: decrypt_cell_sums(vault, manifest, layout, columns, rows),
    )


def ask_store(
    vault: Vault,
    statement: Callable[[str], str],
    decrypt: Callable[[SealedManifest, list[tuple[Any, ...]]], Sums | None],
) -> Sums:
    """Run a statement about an epoch in the store and decrypt the result; an impossible result blocks all queries."""
    while True:
        with vault.ring.reading():
            manifest = vault.ring.read(vault.policy.name)
            vault.ring.require_untampered(manifest.epoch)
            if not manifest.unfinished or not _is_abandoned(vault):
                rows = vault.store.sums(statement(manifest.epoch))
                break
        with vault.ring.sealing() as held:
            if held:
                vault.recover()
    sums = decrypt(manifest, rows)
    if sums is None:
        with vault.ring.changing():
            vault.ring.mark_tampered(manifest.epoch)
        raise store_tampered()
    return sums


def _is_abandoned(vault: Vault) -> bool:
    """Tell whether no process is sealing, so that an intended batch belongs to a dead process."""
    with vault.ring.sealing(wait=False) as held:
        return held


def decrypt_cell_sums(
    vault: Vault,
    manifest: SealedManifest,
    layout: Layout,
    columns: tuple[SealedColumn, ...],
    rows: list[tuple[Any, ...]],
) -> CellSums | None:
    """Return the sums of every cell; None if any of them is impossible for honest rows.

    Theorem: an answer that differs from the honest one is accepted with a probability of at most V / (p - 1), where V
    is the number of pairs of count and sum that are possible.  Proof: proofs/sealed.md
    """
    epoch = vault.epoch_of(manifest, layout)
    if epoch is None:
        return None
    totals = _read_totals(rows, columns, len(layout.cells))
    if totals is None:
        return None
    tokens = vault.tokens(manifest.epoch, layout)
    sizes = [sum(batch.sizes[cell] for batch in epoch.committed) for cell in range(len(layout.cells))]
    sums = {}
    for column_index, column in enumerate(columns):
        pads = _cell_pad_sums(vault, manifest, layout, column, epoch)
        inverse = pow(vault.secret_factor(manifest.epoch, layout, column), -1, column.prime)
        pairs = []
        for cell, size in enumerate(sizes):
            total = totals[int(tokens[cell])][column_index]
            pair = column.check_sum((total - pads[cell]) * inverse % column.prime, size)
            if pair is None:
                return None
            pairs.append(pair)
        sums[column.labels] = pairs
    return CellSums(sums)


def _read_totals(rows: list[tuple[Any, ...]], columns: tuple[SealedColumn, ...], cells: int) -> list[list[int]] | None:
    """Return the sum of each column by token, 0 for absent tokens; None for a malformed result."""
    totals = [[0] * len(columns) for _ in range(cells)]
    seen: set[int] = set()
    for row in rows:
        if any(type(value) is not int for value in row) or row[0] in seen or not 0 <= row[0] < cells:
            return None
        seen.add(row[0])
        start = 1
        for column_index, column in enumerate(columns):
            limbs = row[start : start + len(column.limbs)]
            totals[row[0]][column_index] = sum(
                limb << (LIMB_BITS * limb_index) for limb_index, limb in enumerate(limbs)
            )
            start += len(column.limbs)
        if start != len(row):
            return None
    return totals


def _cell_pad_sums(
    vault: Vault, manifest: SealedManifest, layout: Layout, column: SealedColumn, epoch: SealedEpoch
) -> list[int]:
    """Return the sum of the pads of each cell over all batches: two calls of the cipher per cell and batch."""
    cells = np.arange(len(layout.cells), dtype=np.uint64)
    sums = [0] * len(cells)
    for batch in epoch.committed:
        ashe = vault.ashe(manifest.epoch, layout, column, batch.nonce)
        pads = ashe.cell_pads(cells, np.array(batch.sizes, dtype=np.uint64))
        sums = [known + int(pad) for known, pad in zip(sums, pads.tolist(), strict=True)]
    return sums


def check_all_cells(vault: Vault) -> None:
    """Compare every cell of every table with the manifest, or refuse."""
    manifest = vault.ring.read(vault.policy.name)
    vault.ring.require_untampered(manifest.epoch)
    for name in manifest.tables or {}:
        if fold_name(name) in vault.layouts:
            cell_sums(vault, fold_name(name), vault.layouts[fold_name(name)].columns)
