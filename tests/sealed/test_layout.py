"""Columns are as wide as their sums need, and accept what honest rows can add up to, and nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.sealed.clinic import plain_policy, rows, sealed_policy
from tests.sealed.test_database import ASKED, agree

import sfumato
from sfumato.policy.policy import Bounds, Column, ColumnType, SealedTable, Table, UnitColumn
from sfumato.sealed.ashe import PRIMES
from sfumato.sealed.database import open_sealed, seal
from sfumato.sealed.layout import SealedColumn, layout_of


def table(capacity: int, width: int) -> Table:
    cost = Column("cost", ColumnType.INTEGER, Bounds(0, width))
    sealed = SealedTable((), ("cost",), (), (), (), capacity)
    return Table("visits", (Column("who", ColumnType.INTEGER), cost), UnitColumn("who"), 1, sealed=sealed)


@pytest.mark.parametrize(("integrity", "prime"), [(16, 0), (18, 0), (19, 1), (46, 1), (47, 2), (64, 2)])
def test_the_prime_is_the_smallest_that_notices_a_change_so_surely(integrity: int, prime: int) -> None:
    """The printed values: capacity 131,072 and range 1000 give 2^-18 at 61 bits, 2^-46 at 89."""
    (column,) = layout_of(table(131_072, 1000), integrity).columns
    assert column.prime == PRIMES[prime]
    assert 2**column.gap > 131_072 * 1000
    assert len(column.limbs) == (2, 3, 4)[prime]


@pytest.mark.parametrize(("rows_of_cell", "width"), [(0, 3), (1, 0), (3, 2), (4, 5), (6, 1)])
def test_as_many_totals_are_valid_as_the_theorem_counts(rows_of_cell: int, width: int) -> None:
    (column,) = layout_of(table(max(rows_of_cell, 1), width), 16).columns
    honest = {(0, 0)} | {(count, surplus) for count in range(rows_of_cell + 1) for surplus in range(count * width + 1)}
    found = {
        pair for total in range((rows_of_cell + 3) << column.gap) if (pair := column.check_sum(total, rows_of_cell))
    }
    assert found == honest
    assert 2 * len(found) == (rows_of_cell + 1) * (rows_of_cell * width + 2)


def test_limbs_are_the_residue() -> None:
    for prime in PRIMES:
        column = SealedColumn("sums", "cost", 0, 0, 1, 1, prime, tuple("abcde")[: -(-prime.bit_length() // 31)])
        residues = np.array([0, 1, prime - 1, prime // 3], dtype=object)
        limbs = column.split(residues)
        assert all(limb.dtype == np.int32 and limb.min() >= 0 for limb in limbs)
        again = sum((limb.astype(object) << (31 * at) for at, limb in enumerate(limbs)), np.zeros(4, dtype=object))
        assert list(again) == list(residues)
        assert replace(column, gap=0).check_sum(5, 4) is None


@pytest.mark.parametrize("integrity", [40, 60])
def test_wide_columns_answer_as_narrow_ones_do(tmp_path: Path, integrity: int) -> None:
    policy, everybody = sealed_policy(tmp_path), rows(15)
    policy["sealed"]["integrity"] = integrity
    seal(policy, "visits", everybody)
    with open_sealed(policy) as sealed, sfumato.open(plain_policy(tmp_path, everybody, policy)) as plain:
        sealed.check()
        for sql in ASKED[:4]:
            agree(sealed, plain, sql)
