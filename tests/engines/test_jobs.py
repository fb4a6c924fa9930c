"""What a statement returns in columns is put into the cells of its group."""

import numpy as np
import pyarrow as pa

from sfumato.engines.sql.held_buckets import places_of_cells


def test_each_row_finds_its_cell_however_many_cells_the_keys_could_have() -> None:
    """Five keys of ten thousand values each: the product of their numbers is above 2^63."""
    rows = 10_000
    columns = [pa.chunked_array([np.roll(np.arange(rows), shift)]) for shift in range(5)]
    cells = list(zip(*(column.to_pylist() for column in columns), strict=True))
    assert places_of_cells(columns, cells, rows).tolist() == list(range(rows))


def test_a_row_without_a_key_has_the_cell_of_null_or_none() -> None:
    columns = [pa.chunked_array([pa.array(["a", "b", None, "a"])]), pa.chunked_array([pa.array([1, 2, 3, None])])]
    assert places_of_cells(columns, [("b", 2), ("a", 1), ("a", None)], 4).tolist() == [1, 0, -1, 2]
    assert places_of_cells([], [()], 2).tolist() == [0, 0]
