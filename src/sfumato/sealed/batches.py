"""Seal a batch: bound contributions over all batches, pad every cell, charge first, and write atomically."""

import json
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.accounting.loss import PrivacyLoss
from sfumato.errors import BadSource, quote_value
from sfumato.ledger.payer import ChargedRelease, Payer
from sfumato.ledger.recorded_policy import DATASET
from sfumato.policy.canonical import policy_hash
from sfumato.policy.policy import fold_name
from sfumato.randomness.source import read_exactly, system_source
from sfumato.sealed.intake import UNIT_BYTES, Intake, Integers, Truths, read_rows
from sfumato.sealed.layout import ROWS, SQUARES, Layout, SealedColumn
from sfumato.sealed.manifest import NONCE_BYTES, BatchState, SealedBatch, SealedEpoch, SealedManifest, fresh_hex
from sfumato.sealed.padding import Padding
from sfumato.sealed.stores import JOIN_COLUMNS, ROW_NUMBER, StoredColumns
from sfumato.sealed.vault import Vault

_COUNT_BYTES = 8


@dataclass(frozen=True, slots=True)
class Batch:
    """Size of a sealed batch, for the data owner."""

    kept: int
    """Number of real rows; rows beyond `rows_per_unit` or without a unit were dropped."""
    stored: int
    """Number of rows in the store, including dummies."""


def seal_batch(vault: Vault, table: str, rows: pa.Table) -> Batch:
    """Seal rows into a table. The caller holds the sealing lock, and no batch is unfinished."""
    layout = vault.layout(table)
    manifest = vault.ring.read(vault.policy.name)
    vault.ring.require_untampered(manifest.epoch)
    epoch = vault.epoch_of(manifest, layout) or SealedEpoch(vault.words(layout))
    labels = (manifest.epoch, fold_name(layout.table.name))
    intake = read_rows(rows, layout, vault.key.derive(*labels, "units"), vault.key.derive(manifest.epoch, "join"))
    digest = intake.digest(vault.key.derive(*labels, "rows"))
    earlier = next(
        (
            sealed_batch
            for sealed_batch in epoch.batches
            if sealed_batch.state is BatchState.ABORTED and sealed_batch.digest == digest
        ),
        None,
    )
    kept = intake.select_rows(
        _rows_within_bounds(
            vault, layout, intake, [sealed_batch for sealed_batch in epoch.counted if sealed_batch is not earlier]
        )
    )
    padding = make_padding(vault, layout)
    sizes: Integers = np.bincount(kept.cells, minlength=len(layout.cells))
    _check_capacity(layout, epoch, sizes)
    ledger = _charge(vault, layout, manifest, padding)  # before the first padding of the table is drawn
    if earlier is None:
        sizes = sizes + padding.draw(len(layout.cells), system_source())
    else:
        sizes = np.array(earlier.sizes, dtype=np.int64)  # the padding of a batch is drawn once
    _check_capacity(layout, epoch, sizes)
    nonce = fresh_hex(NONCE_BYTES)
    batch = SealedBatch(manifest.attempts, nonce, BatchState.INTENDED, digest, tuple(int(size) for size in sizes))
    vault.ring.write_units(nonce, Counter(kept.units or ()))
    intended = replace(manifest, attempts=manifest.attempts + 1, ledger=ledger).with_table(
        fold_name(layout.table.name), replace(epoch, batches=(*epoch.batches, batch))
    )
    vault.ring.write(intended)  # from here on a crash is noticed, and sizes are not drawn again
    columns = encrypt_batch(vault, manifest.epoch, layout, kept, batch)
    with vault.ring.changing():
        vault.store.insert(vault.stored_name(manifest.epoch, fold_name(layout.table.name)), columns)
        others = tuple(sealed_batch for sealed_batch in epoch.batches if sealed_batch is not earlier)
        committed = replace(epoch, batches=(*others, replace(batch, state=BatchState.COMMITTED)))
        vault.ring.write(replace(intended, version=fresh_hex()).with_table(fold_name(layout.table.name), committed))
    if earlier is not None:
        vault.ring.forget_units(earlier.nonce)
    return Batch(len(kept), int(sizes.sum()))


def make_padding(vault: Vault, layout: Layout) -> Padding:
    """Return the padding of a table's cells."""
    rows = layout.table.rows_per_unit
    if rows is None:
        raise AssertionError("a sealed table is private")
    return Padding(vault.sealing.epsilon, vault.sealing.delta, rows, vault.policy.neighbours)


def _rows_within_bounds(vault: Vault, layout: Layout, intake: Intake, batches: list[SealedBatch]) -> Truths:
    """Return a mask of the first `rows_per_unit` rows of each unit, over all batches including aborted ones."""
    kept = np.ones(len(intake), dtype=bool)
    if intake.units is None:
        return kept
    counts: Counter[bytes] = Counter()
    for batch in batches:
        content = vault.ring.read_units(batch.nonce)
        for position in range(0, len(content), UNIT_BYTES + _COUNT_BYTES):
            middle = position + UNIT_BYTES
            counts[content[position:middle]] += int.from_bytes(content[middle : middle + _COUNT_BYTES], "big")
    max_rows = layout.table.rows_per_unit or 1
    for position, unit in enumerate(intake.units):
        counts[unit] += 1
        kept[position] = counts[unit] <= max_rows
    return kept


def _check_capacity(layout: Layout, epoch: SealedEpoch, sizes: Integers) -> None:
    stored = sum((np.array(batch.sizes, dtype=np.int64) for batch in epoch.committed), np.zeros_like(sizes))
    if len(sizes) and int((stored + sizes).max()) > layout.capacity:
        raise BadSource(
            f"A cell of {quote_value(layout.table.name)} would hold more rows than its capacity.",
            f"Sums are encrypted with room for {layout.capacity} rows of one cell, dummies included.",
            "Raise capacity and seal everything again with sfumato.sealed.database.rotate, or use finer cells.",
        )


def _charge(vault: Vault, layout: Layout, manifest: SealedManifest, padding: Padding) -> str:
    """Charge all sizes of a table and epoch once, before any is drawn; return the ledger's identity.

    Proof: proofs/ledger.md, §4d
    """
    name = fold_name(layout.table.name)
    charged = ChargedRelease(
        fingerprint=json.dumps(["sealed sizes", name, manifest.epoch]),
        sql=f"(the padded sizes of the sealed table {layout.table.name})",
        event=padding.event,
        loss=PrivacyLoss(padding.epsilon, padding.delta),
        version=manifest.epoch,
    )
    ledger = vault.open_ledger(manifest)
    try:
        payer = Payer(ledger, DATASET, policy_hash(vault.policy), system_source())
        payer.charge_and_publish(charged, lambda _charge, _source: json.dumps({"sealed": name}))
        return ledger.identity()
    finally:
        ledger.close()


def encrypt_batch(vault: Vault, epoch: str, layout: Layout, kept: Intake, batch: SealedBatch) -> StoredColumns:
    """Return the stored columns of a batch: real rows and dummies, sorted by token and shuffled within each token."""
    sizes = np.array(batch.sizes, dtype=np.int64)
    dummies = sizes - np.bincount(kept.cells, minlength=len(sizes))
    cells = np.concatenate([kept.cells, np.repeat(np.arange(len(sizes)), dummies)])
    tokens = vault.tokens(epoch, layout)[cells]
    shuffled = _distinct_random_numbers(len(cells))
    row_numbers = _row_numbers(cells, shuffled)
    order = np.lexsort((shuffled, tokens))
    stored = {"t": tokens[order], "b": np.full(len(cells), batch.number, dtype=np.int32)}
    if kept.equal is not None:
        stored |= {ROW_NUMBER: row_numbers[order].astype(np.int32), **_join_columns(kept.equal, len(cells), order)}
    for column in layout.columns:
        ashe = vault.ashe(epoch, layout, column, batch.nonce)
        factor = vault.secret_factor(epoch, layout, column)
        plain = np.zeros(len(cells), dtype=object)
        plain[: len(kept)] = _plaintexts(column, kept)
        pads = ashe.row_pads(cells.astype(np.uint64), row_numbers.astype(np.uint64))
        residues = (plain * factor + pads.astype(object)) % column.prime
        stored |= dict(zip(column.limbs, column.split(residues[order]), strict=True))
    return stored


def _plaintexts(column: SealedColumn, kept: Intake) -> npt.NDArray[np.object_]:
    in_slot = kept.slots == column.slot
    if column.kind == ROWS:
        return np.where(in_slot, 1 << column.gap, 0).astype(object)
    excess = kept.values[column.measure].astype(object) - column.low
    if column.kind == SQUARES:
        excess = excess * excess
    counts = in_slot & kept.present[column.measure]
    plaintexts: npt.NDArray[np.object_] = np.where(counts, excess + (1 << column.gap), 0)
    return plaintexts


def _join_columns(
    equal: tuple[bytes, ...], rows: int, order: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[np.int32]]:
    """Return the columns by which rows are joined; dummies get random values and match no row."""
    dummies = read_exactly(system_source(), UNIT_BYTES * (rows - len(equal)))
    parts = np.frombuffer(b"".join(equal) + dummies, dtype=np.int32).reshape(rows, len(JOIN_COLUMNS))
    return {name: np.ascontiguousarray(parts[order, index]) for index, name in enumerate(JOIN_COLUMNS)}


def _row_numbers(cells: Integers, shuffled: npt.NDArray[np.uint64]) -> Integers:
    """Number the rows within each cell from 1, in random order, so that a number does not reveal the original order."""
    order = np.lexsort((shuffled, cells))
    sorted_cells = cells[order]
    starts = (
        np.flatnonzero(np.concatenate([[True], sorted_cells[1:] != sorted_cells[:-1]]))
        if len(cells)
        else np.zeros(0, dtype=int)
    )
    lengths = np.diff(np.concatenate([starts, [len(cells)]]))
    numbers = np.empty(len(cells), dtype=np.int64)
    numbers[order] = np.arange(len(cells)) - np.repeat(starts, lengths) + 1
    return numbers


def _distinct_random_numbers(count: int) -> npt.NDArray[np.uint64]:
    """Return distinct random numbers, one per row: sorting by them is an unbiased shuffle."""
    while True:
        drawn = np.frombuffer(read_exactly(system_source(), 8 * count), dtype=np.uint64)
        if len(np.unique(drawn)) == count:
            return drawn
