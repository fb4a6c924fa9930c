"""Sums over joined rows: the store says which rows it added up, and their pads are taken off one by one.

Only tables that were sealed to be joined have what this needs, and the store learns from it who has how many rows.
A store that leaves out pairs is not noticed here; one that counts a row more often than its person has rows in the
other table is, and so is one that changes a sum.  Proof: proofs/sealed.md
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.sealed.layout import LIMB, Layout, SealedColumn
from sfumato.sealed.manifest import SealedEpoch, SealedManifest
from sfumato.sealed.stores import BATCH_BITS, joined_statement
from sfumato.sealed.vault import Vault

Pairs = dict[tuple[int, int], tuple[int, int]]
"""For each pair of cells that met: how many rows count, and the sum of their values above the least one."""


@dataclass(frozen=True, slots=True, repr=False)
class JoinedSums:
    """Of each column of one table, over pairs of its cells and the other table's. Secret."""

    found: Mapping[tuple[str, str, str], Pairs]

    def of(self, column: SealedColumn, cells: tuple[int, int]) -> tuple[int, int]:
        """Return the count and the sum of one pair of cells."""
        return self.found[column.labels].get(cells, (0, 0))


@dataclass(frozen=True, slots=True)
class JoinedSide:
    """One table's side of a join: its rows, added up by its own cell and the other's."""

    layout: Layout
    other: Layout
    columns: tuple[SealedColumn, ...]

    def statement(self, vault: Vault, epoch: str) -> str:
        """Return what the store is sent."""
        names = [vault.stored_name(epoch, layout.name) for layout in (self.layout, self.other)]
        return joined_statement(names[0], names[1], [limb for column in self.columns for limb in column.limbs])

    def decrypted(self, vault: Vault, manifest: SealedManifest, rows: list[tuple[Any, ...]]) -> JoinedSums | None:
        """Return the sums of every pair of cells; None for an answer that no honest store can have given.

        Theorem: whatever the store answers, each row of a person counts at most as often as a person may have rows in
        the other table, with a value within its bounds.  Proof: proofs/sealed.md
        """
        epoch = vault.epoch_of(manifest, self.layout)
        if epoch is None:
            return None
        read = self._read(vault, manifest, rows)
        if read is None or not self._within(epoch, read):
            return None
        found: dict[tuple[str, str, str], Pairs] = {}
        start = 0
        for column in self.columns:
            pairs: Pairs = {}
            inverse = pow(vault.secret_factor(manifest.epoch, self.layout, column), -1, column.prime)
            for cells, (places, limbs) in read.items():
                mine = limbs[start : start + len(column.limbs)]
                total = sum(limb << (LIMB * order) for order, limb in enumerate(mine))
                pads = self._pads(vault, manifest, column, epoch, cells[0], places)
                pair = column.valid((total - pads) * inverse % column.prime, len(places))
                if pair is None:
                    return None
                pairs[cells] = pair
            found[column.labels] = pairs
            start += len(column.limbs)
        return JoinedSums(found)

    def _read(
        self, vault: Vault, manifest: SealedManifest, rows: list[tuple[Any, ...]]
    ) -> dict[tuple[int, int], tuple[list[int], tuple[int, ...]]] | None:
        """Return what the store said by pairs of cells; any other form is no answer."""
        tokens = [vault.tokens(manifest.epoch, layout).tolist() for layout in (self.layout, self.other)]
        cells = [{token: cell for cell, token in enumerate(side)} for side in tokens]
        width = 3 + sum(len(column.limbs) for column in self.columns)
        read: dict[tuple[int, int], tuple[list[int], tuple[int, ...]]] = {}
        for row in rows:
            if len(row) != width or not isinstance(row[2], list):
                return None
            if any(type(value) is not int for value in (*row[:2], *row[2], *row[3:])):
                return None
            if row[0] not in cells[0] or row[1] not in cells[1]:
                return None
            pair = (cells[0][row[0]], cells[1][row[1]])
            if pair in read:
                return None
            read[pair] = (row[2], row[3:])
        return read

    def _within(self, epoch: SealedEpoch, read: Mapping[tuple[int, int], tuple[list[int], tuple[int, ...]]]) -> bool:
        """Whether every row that was added up exists, and none of them too often."""
        sizes = {batch.number: batch.sizes for batch in epoch.committed}
        most = self.other.table.rows_per_unit or 1
        times: Counter[tuple[int, int]] = Counter()
        for (cell, _), (places, _) in read.items():
            times.update((cell, place) for place in places)
        return all(
            count <= most and place >= 0 and 1 <= place % (1 << BATCH_BITS) <= _size(sizes, place, cell)
            for (cell, place), count in times.items()
        )

    def _pads(
        self,
        vault: Vault,
        manifest: SealedManifest,
        column: SealedColumn,
        epoch: SealedEpoch,
        cell: int,
        places: list[int],
    ) -> int:
        """Return what the pads of these rows of one cell add up to."""
        both = np.array(places, dtype=np.uint64)
        batches, numbers = both >> np.uint64(BATCH_BITS), both & np.uint64((1 << BATCH_BITS) - 1)
        total = 0
        for batch in epoch.committed:
            mine = numbers[batches == batch.number]
            if len(mine):
                ashe = vault.ashe(manifest.epoch, self.layout, column, batch.nonce)
                pads = ashe.row_pads(np.full(len(mine), cell, dtype=np.uint64), mine)
                total += sum(int(pad) for pad in pads.tolist())
        return total


def _size(sizes: Mapping[int, tuple[int, ...]], place: int, cell: int) -> int:
    found = sizes.get(place >> BATCH_BITS)
    return 0 if found is None else found[cell]
