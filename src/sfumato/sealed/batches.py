"""Sealing a batch: bounded over all batches, padded in every cell, charged first, and whole or not at all."""

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
from sfumato.sealed.intake import UNIT_BYTES, Intake, Integers, Truths, take_in
from sfumato.sealed.layout import ROWS, SQUARES, Layout, SealedColumn
from sfumato.sealed.manifest import NONCE_BYTES, BatchState, SealedBatch, SealedEpoch, SealedManifest, fresh_hex
from sfumato.sealed.padding import Padding
from sfumato.sealed.stores import JOINED_BY, PLACE, Stored
from sfumato.sealed.vault import Vault

_COUNT_BYTES = 8


@dataclass(frozen=True, slots=True)
class Batch:
    """What was sealed. Both numbers are for the owner."""

    kept: int
    """Rows of people: others were beyond the rows of their person, or had no person."""
    stored: int
    """Rows in the store, dummies included."""


def seal_batch(vault: Vault, table: str, rows: pa.Table) -> Batch:
    """Seal rows into a table. Whoever calls this holds the sealing lock, and nothing is unfinished."""
    layout = vault.layout(table)
    manifest = vault.ring.read(vault.policy.name)
    vault.ring.require_untampered(manifest.epoch)
    epoch = vault.epoch_of(manifest, layout) or SealedEpoch(vault.words(layout))
    labels = (manifest.epoch, fold_name(layout.table.name))
    given = take_in(rows, layout, vault.key.derive(*labels, "units"), vault.key.derive(manifest.epoch, "join"))
    digest = given.digest(vault.key.derive(*labels, "rows"))
    before = next((one for one in epoch.batches if one.state is BatchState.ABORTED and one.digest == digest), None)
    kept = given.chosen(_within_bounds(vault, layout, given, [one for one in epoch.counted if one is not before]))
    padding = padding_of(vault, layout)
    sizes: Integers = np.bincount(kept.cells, minlength=len(layout.cells))
    _check_capacity(layout, epoch, sizes)
    ledger = _charge(vault, layout, manifest, padding)  # before the first padding of the table is drawn
    if before is None:
        sizes = sizes + padding.draw(len(layout.cells), system_source())
    else:
        sizes = np.array(before.sizes, dtype=np.int64)  # the padding of a batch is drawn once
    _check_capacity(layout, epoch, sizes)
    nonce = fresh_hex(NONCE_BYTES)
    batch = SealedBatch(manifest.attempts, nonce, BatchState.INTENDED, digest, tuple(int(size) for size in sizes))
    vault.ring.write_units(nonce, Counter(kept.units or ()))
    intended = replace(manifest, attempts=manifest.attempts + 1, ledger=ledger).with_table(
        fold_name(layout.table.name), replace(epoch, batches=(*epoch.batches, batch))
    )
    vault.ring.write(intended)  # from here on a crash is noticed, and sizes are not drawn again
    columns = encrypted(vault, manifest.epoch, layout, kept, batch)
    with vault.ring.changing():
        vault.store.insert(vault.stored_name(manifest.epoch, fold_name(layout.table.name)), columns)
        done = tuple(one for one in epoch.batches if one is not before)
        committed = replace(epoch, batches=(*done, replace(batch, state=BatchState.COMMITTED)))
        vault.ring.write(replace(intended, version=fresh_hex()).with_table(fold_name(layout.table.name), committed))
    if before is not None:
        vault.ring.forget_units(before.nonce)
    return Batch(len(kept), int(sizes.sum()))


def padding_of(vault: Vault, layout: Layout) -> Padding:
    """Return how the cells of a table are padded."""
    rows = layout.table.rows_per_unit
    if rows is None:
        raise AssertionError("a sealed table is private")
    return Padding(vault.sealing.epsilon, vault.sealing.delta, rows, vault.policy.neighbours)


def _within_bounds(vault: Vault, layout: Layout, given: Intake, batches: list[SealedBatch]) -> Truths:
    """Return which rows stay: the first of each person, over all batches, aborted ones included."""
    kept = np.ones(len(given), dtype=bool)
    if given.units is None:
        return kept
    counts: Counter[bytes] = Counter()
    for batch in batches:
        content = vault.ring.read_units(batch.nonce)
        for at in range(0, len(content), UNIT_BYTES + _COUNT_BYTES):
            middle = at + UNIT_BYTES
            counts[content[at:middle]] += int.from_bytes(content[middle : middle + _COUNT_BYTES], "big")
    most = layout.table.rows_per_unit or 1
    for at, unit in enumerate(given.units):
        counts[unit] += 1
        kept[at] = counts[unit] <= most
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
    """Pay for all sizes of a table and epoch, once, before any is drawn; return the ledger's identity.

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


def encrypted(vault: Vault, epoch: str, layout: Layout, kept: Intake, batch: SealedBatch) -> Stored:
    """Return the stored columns of a batch: real rows and dummies, sorted by token and shuffled inside each."""
    sizes = np.array(batch.sizes, dtype=np.int64)
    dummies = sizes - np.bincount(kept.cells, minlength=len(sizes))
    cells = np.concatenate([kept.cells, np.repeat(np.arange(len(sizes)), dummies)])
    tokens = vault.tokens(epoch, layout)[cells]
    shuffled = _random_order(len(cells))
    places = _places(cells, shuffled)
    order = np.lexsort((shuffled, tokens))
    stored = {"t": tokens[order], "b": np.full(len(cells), batch.number, dtype=np.int32)}
    if kept.equal is not None:
        stored |= {PLACE: places[order].astype(np.int32), **_whose(kept.equal, len(cells), order)}
    for column in layout.columns:
        ashe = vault.ashe(epoch, layout, column, batch.nonce)
        factor = vault.secret_factor(epoch, layout, column)
        plain = np.zeros(len(cells), dtype=object)
        plain[: len(kept)] = _plaintexts(column, kept)
        pads = ashe.row_pads(cells.astype(np.uint64), places.astype(np.uint64))
        residues = (plain * factor + pads.astype(object)) % column.prime
        stored |= dict(zip(column.limbs, column.split(residues[order]), strict=True))
    return stored


def _plaintexts(column: SealedColumn, kept: Intake) -> npt.NDArray[np.object_]:
    here = kept.slots == column.slot
    if column.kind == ROWS:
        return np.where(here, 1 << column.gap, 0).astype(object)
    above = kept.values[column.measure].astype(object) - column.low
    if column.kind == SQUARES:
        above = above * above
    counts = here & kept.present[column.measure]
    plain: npt.NDArray[np.object_] = np.where(counts, above + (1 << column.gap), 0)
    return plain


def _whose(equal: tuple[bytes, ...], rows: int, order: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.int32]]:
    """Return the columns by which rows are joined; a dummy is of nobody, and meets no row."""
    dummies = read_exactly(system_source(), UNIT_BYTES * (rows - len(equal)))
    parts = np.frombuffer(b"".join(equal) + dummies, dtype=np.int32).reshape(rows, len(JOINED_BY))
    return {name: np.ascontiguousarray(parts[order, at]) for at, name in enumerate(JOINED_BY)}


def _places(cells: Integers, shuffled: npt.NDArray[np.uint64]) -> Integers:
    """Return the number of each row within its cell, from 1, in a random order: it tells nothing of where it was."""
    order = np.lexsort((shuffled, cells))
    ranked = cells[order]
    starts = (
        np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]])) if len(cells) else np.zeros(0, dtype=int)
    )
    lengths = np.diff(np.concatenate([starts, [len(cells)]]))
    places = np.empty(len(cells), dtype=np.int64)
    places[order] = np.arange(len(cells)) - np.repeat(starts, lengths) + 1
    return places


def _random_order(count: int) -> npt.NDArray[np.uint64]:
    """Return different random numbers, one per row: sorting by them is an unbiased shuffle."""
    while True:
        drawn = np.frombuffer(read_exactly(system_source(), 8 * count), dtype=np.uint64)
        if len(np.unique(drawn)) == count:
            return drawn
