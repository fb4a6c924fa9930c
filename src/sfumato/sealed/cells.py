"""The sums of every cell, decrypted and checked one by one: what no honest store can have answered is refused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from sfumato.policy.policy import fold_name
from sfumato.sealed.layout import LIMB, Layout, SealedColumn
from sfumato.sealed.manifest import SealedEpoch, SealedManifest, tampered
from sfumato.sealed.stores import sums_statement
from sfumato.sealed.vault import Vault

Sums = TypeVar("Sums")


@dataclass(frozen=True, slots=True, repr=False)
class CellSums:
    """Of each column and cell: how many rows count, and the sum of their values above the least one. Secret."""

    found: Mapping[tuple[str, str, str], list[tuple[int, int]]]

    def of(self, column: SealedColumn, cell: int) -> tuple[int, int]:
        """Return the count and the sum of one cell."""
        return self.found[column.labels][cell]


def cell_sums(vault: Vault, table: str, columns: tuple[SealedColumn, ...]) -> CellSums:
    """Ask the store for the sums of some columns over all cells, and decrypt them; refused if it was changed."""
    layout, limbs = vault.layouts[table], [limb for column in columns for limb in column.limbs]
    return believed(
        vault,
        lambda epoch: sums_statement(vault.stored_name(epoch, table), limbs),
        lambda manifest, rows: decrypted(vault, manifest, layout, columns, rows),
    )


def believed(
    vault: Vault,
    statement: Callable[[str], str],
    decrypt: Callable[[SealedManifest, list[tuple[Any, ...]]], Sums | None],
) -> Sums:
    """Ask the store a statement about an epoch and decrypt what it says; what cannot be true stops all asking."""
    while True:
        with vault.ring.reading():
            manifest = vault.ring.read(vault.policy.name)
            vault.ring.require_untampered(manifest.epoch)
            if not manifest.unfinished or not _is_left_behind(vault):
                rows = vault.store.sums(statement(manifest.epoch))
                break
        with vault.ring.sealing() as held:
            if held:
                vault.recover()
    found = decrypt(manifest, rows)
    if found is None:
        with vault.ring.changing():
            vault.ring.mark_tampered(manifest.epoch)
        raise tampered()
    return found


def _is_left_behind(vault: Vault) -> bool:
    """Whether nobody is sealing, so that an intent is of a process that no longer lives."""
    with vault.ring.sealing(wait=False) as held:
        return held


def decrypted(
    vault: Vault,
    manifest: SealedManifest,
    layout: Layout,
    columns: tuple[SealedColumn, ...],
    rows: list[tuple[Any, ...]],
) -> CellSums | None:
    """Return the sums of every cell; None unless each of them is one that honest rows can have.

    Theorem: an answer that differs from the honest one is accepted with a probability of at most V / (p - 1), where V
    is the number of pairs of count and sum that are possible.  Proof: proofs/sealed.md
    """
    epoch = vault.epoch_of(manifest, layout)
    if epoch is None:
        return None
    totals = _totals(rows, columns, len(layout.cells))
    if totals is None:
        return None
    tokens = vault.tokens(manifest.epoch, layout)
    sizes = [sum(batch.sizes[cell] for batch in epoch.committed) for cell in range(len(layout.cells))]
    found = {}
    for at, column in enumerate(columns):
        pads = _pads(vault, manifest, layout, column, epoch)
        inverse = pow(vault.secret_factor(manifest.epoch, layout, column), -1, column.prime)
        pairs = []
        for cell, size in enumerate(sizes):
            total = totals[int(tokens[cell])][at]
            pair = column.valid((total - pads[cell]) * inverse % column.prime, size)
            if pair is None:
                return None
            pairs.append(pair)
        found[column.labels] = pairs
    return CellSums(found)


def _totals(rows: list[tuple[Any, ...]], columns: tuple[SealedColumn, ...], cells: int) -> list[list[int]] | None:
    """Return the sum of each column by token; a token that is absent has the sum 0, and any other form is no answer."""
    totals = [[0] * len(columns) for _ in range(cells)]
    seen: set[int] = set()
    for row in rows:
        if any(type(value) is not int for value in row) or row[0] in seen or not 0 <= row[0] < cells:
            return None
        seen.add(row[0])
        place = 1
        for at, column in enumerate(columns):
            limbs = row[place : place + len(column.limbs)]
            totals[row[0]][at] = sum(limb << (LIMB * order) for order, limb in enumerate(limbs))
            place += len(column.limbs)
        if place != len(row):
            return None
    return totals


def _pads(
    vault: Vault, manifest: SealedManifest, layout: Layout, column: SealedColumn, epoch: SealedEpoch
) -> list[int]:
    """Return what the pads of each cell add up to, over all batches: two calls of the cipher per cell and batch."""
    cells = np.arange(len(layout.cells), dtype=np.uint64)
    sums = [0] * len(cells)
    for batch in epoch.committed:
        ashe = vault.ashe(manifest.epoch, layout, column, batch.nonce)
        pads = ashe.cell_pads(cells, np.array(batch.sizes, dtype=np.uint64))
        sums = [known + int(pad) for known, pad in zip(sums, pads.tolist(), strict=True)]
    return sums


def check_all(vault: Vault) -> None:
    """Compare every cell of every table with the manifest, or refuse."""
    manifest = vault.ring.read(vault.policy.name)
    vault.ring.require_untampered(manifest.epoch)
    for name in manifest.tables or {}:
        if fold_name(name) in vault.layouts:
            cell_sums(vault, fold_name(name), vault.layouts[fold_name(name)].columns)
