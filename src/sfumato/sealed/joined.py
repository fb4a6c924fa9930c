"""Sum over joined rows: the store reports which rows it added up, and their pads are subtracted one by one.

Only tables that were sealed to be joined support this, and the store learns the number of rows per unit. A store that
leaves out pairs is not detected; one that counts a row more often than its unit has rows in the other table is, and so
is one that changes a sum.  Proof: proofs/sealed.md
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.sealed.layout import LIMB_BITS, Layout, SealedColumn
from sfumato.sealed.manifest import SealedEpoch, SealedManifest
from sfumato.sealed.stores import BATCH_BITS, joined_statement
from sfumato.sealed.vault import Vault

PairSums = dict[tuple[int, int], tuple[int, int]]
"""Count and sum above the lower bound, for each pair of cells with joined rows."""


@dataclass(frozen=True, slots=True, repr=False)
class JoinedSums:
    """Sums of each column of one table over pairs of its cells and the other table's: secret."""

    found: Mapping[tuple[str, str, str], PairSums]

    def of(self, column: SealedColumn, cells: tuple[int, int]) -> tuple[int, int]:
        """Return the count and the sum of one pair of cells."""
        return self.found[column.labels].get(cells, (0, 0))


@dataclass(frozen=True, slots=True)
class JoinedSide:
    """One side of a join: the rows of its table, summed by its own cell and the other's."""

    layout: Layout
    other: Layout
    columns: tuple[SealedColumn, ...]

    def statement(self, vault: Vault, epoch: str) -> str:
        """Return the statement for the store."""
        names = [vault.stored_name(epoch, layout.name) for layout in (self.layout, self.other)]
        return joined_statement(names[0], names[1], [limb for column in self.columns for limb in column.limbs])

    def decrypt_pair_sums(
        self, vault: Vault, manifest: SealedManifest, rows: list[tuple[Any, ...]]
    ) -> JoinedSums | None:
        """Return the sums of every pair of cells; None for an answer that no honest store can give.

        Theorem: for every answer of the store, each row of a unit counts at most as often as a unit may have rows in
        the other table, with a value within its bounds.  Proof: proofs/sealed.md
        """
        epoch = vault.epoch_of(manifest, self.layout)
        if epoch is None:
            return None
        read = self._read_pairs(vault, manifest, rows)
        if read is None or not self._rows_exist(epoch, read):
            return None
        sums_by_column: dict[tuple[str, str, str], PairSums] = {}
        start = 0
        for column in self.columns:
            pairs: PairSums = {}
            inverse = pow(vault.secret_factor(manifest.epoch, self.layout, column), -1, column.prime)
            for cells, (row_numbers, limbs) in read.items():
                column_limbs = limbs[start : start + len(column.limbs)]
                total = sum(limb << (LIMB_BITS * limb_index) for limb_index, limb in enumerate(column_limbs))
                pads = self._row_pad_sum(vault, manifest, column, epoch, cells[0], row_numbers)
                pair = column.check_sum((total - pads) * inverse % column.prime, len(row_numbers))
                if pair is None:
                    return None
                pairs[cells] = pair
            sums_by_column[column.labels] = pairs
            start += len(column.limbs)
        return JoinedSums(sums_by_column)

    def _read_pairs(
        self, vault: Vault, manifest: SealedManifest, rows: list[tuple[Any, ...]]
    ) -> dict[tuple[int, int], tuple[list[int], tuple[int, ...]]] | None:
        """Return the store's answer by pairs of cells; None for a malformed one."""
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

    def _rows_exist(
        self, epoch: SealedEpoch, read: Mapping[tuple[int, int], tuple[list[int], tuple[int, ...]]]
    ) -> bool:
        """Tell whether every added row exists and was added at most as often as allowed."""
        sizes = {batch.number: batch.sizes for batch in epoch.committed}
        max_times = self.other.table.rows_per_unit or 1
        times: Counter[tuple[int, int]] = Counter()
        for (cell, _), (row_numbers, _) in read.items():
            times.update((cell, row_number) for row_number in row_numbers)
        return all(
            count <= max_times
            and row_number >= 0
            and 1 <= row_number % (1 << BATCH_BITS) <= _cell_size(sizes, row_number, cell)
            for (cell, row_number), count in times.items()
        )

    def _row_pad_sum(
        self,
        vault: Vault,
        manifest: SealedManifest,
        column: SealedColumn,
        epoch: SealedEpoch,
        cell: int,
        row_numbers: list[int],
    ) -> int:
        """Return the sum of the pads of these rows of one cell."""
        packed = np.array(row_numbers, dtype=np.uint64)
        batches, row_numbers_in_cell = packed >> np.uint64(BATCH_BITS), packed & np.uint64((1 << BATCH_BITS) - 1)
        total = 0
        for batch in epoch.committed:
            batch_rows = row_numbers_in_cell[batches == batch.number]
            if len(batch_rows):
                ashe = vault.ashe(manifest.epoch, self.layout, column, batch.nonce)
                pads = ashe.row_pads(np.full(len(batch_rows), cell, dtype=np.uint64), batch_rows)
                total += sum(int(pad) for pad in pads.tolist())
        return total


def _cell_size(sizes: Mapping[int, tuple[int, ...]], row_number: int, cell: int) -> int:
    batch_sizes = sizes.get(row_number >> BATCH_BITS)
    return 0 if batch_sizes is None else batch_sizes[cell]
