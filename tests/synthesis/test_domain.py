"""What a column can hold is said in public; a row's cell depends on its own value, and nothing about it raises."""

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import BadParameter
from sfumato.synthesis.domain import Range, Stepped, read_domain

ODD: list[Any] = [
    None,
    float("nan"),
    float("inf"),
    -float("inf"),
    "x",
    b"x",
    [1],
    {},
    object(),
    1j,
    10**400,
    -(10**400),
]


def codes(said: object, values: Any) -> list[int]:
    (column,) = read_domain({"c": said})
    return [int(code) for code in column.codes(values)]


def test_a_listed_value_has_its_cell_and_every_other_is_absent() -> None:
    assert codes(["a", "b"], ["b", "a", "c", None, 1]) == [1, 0, -1, -1, -1]
    assert codes([False, True], [True, False, "True"]) == [1, 0, -1]
    assert codes([date(2024, 1, 1)], [date(2024, 1, 1), date(2024, 1, 2)]) == [0, -1]


def test_numbers_are_clipped_to_their_range_and_cut_into_equal_cells() -> None:
    assert codes(Range(0, 10, 5), [-3, 0, 1.99, 2, 9.99, 10, 11, Decimal("4.5"), Fraction(7)]) == [
        0,
        0,
        0,
        1,
        4,
        4,
        4,
        2,
        3,
    ]
    assert codes(Range(0, 18, 19, whole=True), [0, 18, 7, 7.4, 99]) == [0, 18, 7, 7, 18]
    assert codes(Range(0, 2, 16, whole=True), [0, 1, 2]) == [0, 1, 2]  # no more cells than values


def test_dates_are_cut_on_their_own_days() -> None:
    year = Range(date(2024, 1, 1), date(2024, 12, 31), 12)
    assert codes(year, [date(2024, 1, 1), date(2024, 12, 31), date(2023, 1, 1), datetime(2024, 6, 30, 12)]) == [
        0,
        11,
        0,
        5,
    ]
    assert codes(year, ["2024-01-01", 5, None]) == [-1, -1, -1]


@pytest.mark.parametrize(
    "said", [Range(0, 1, 4), Range(-5, 5, 3, whole=True), ["x"], [1, 2], Range(date(1, 1, 1), date(2, 1, 1), 2)]
)
def test_whatever_a_row_holds_nothing_raises_and_no_value_decides_about_another(said: object) -> None:
    (column,) = read_domain({"c": said})
    alone = [column.codes([value]).tolist()[0] for value in ODD]
    assert column.codes(ODD).tolist() == alone
    assert column.codes(ODD[::-1]).tolist() == alone[::-1]
    assert all(-1 <= code < column.size for code in alone)
    assert column.codes([None, float("nan"), float("inf")]).tolist() == [-1] * 3
    assert column.codes([]).tolist() == []


def test_columns_of_numpy_and_arrow_are_read_like_lists() -> None:
    (column,) = read_domain({"c": Range(0, 4, 4)})
    for values in (np.array([0.5, np.nan, 3.5]), pa.array([0.5, None, 3.5])):
        assert codes(Range(0, 4, 4), values.tolist() if isinstance(values, np.ndarray) else values.to_pylist()) == [
            0,
            -1,
            3,
        ]
    assert column.size == 4


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 100, 1000])
@pytest.mark.parametrize("bins", [1, 2, 3, 16])
def test_the_cells_of_a_grid_are_what_their_ends_say(count: int, bins: int) -> None:
    column = Stepped("c", 5, 5 + count - 1, bins, Fraction(1), int)
    cells = column.of_steps(np.arange(5, 5 + count))
    assert cells[0] == 0
    assert cells[-1] == column.size - 1
    assert np.diff(cells).min(initial=0) >= 0
    sizes = np.bincount(cells)
    assert sizes.max() - sizes.min() <= 1
    assert [int(column.first(cell)) for cell in range(column.size)] == [
        5 + int(np.flatnonzero(cells == cell)[0]) for cell in range(column.size)
    ]


@pytest.mark.parametrize(
    "said",
    [
        Range(0, 10, 5),
        Range(3, 29, 4, whole=True),
        Range(date(2024, 1, 1), date(2024, 3, 1), 7),
        Range(datetime(2024, 1, 1), datetime(2024, 1, 2), 3),
        ["a", "b"],
        [1.5, 2],
        [True, False],
    ],
)
def test_drawn_values_lie_in_the_cells_they_were_drawn_for(said: object) -> None:
    (column,) = read_domain({"c": said})
    cells = np.repeat(np.arange(column.size), 11)
    within = np.tile(np.linspace(0, 1 - 2**-53, 11), column.size)
    drawn = column.drawn(cells, within)
    assert drawn.type == column.arrow
    assert column.codes(drawn.to_pylist()).tolist() == cells.tolist() or (isinstance(said, Range) and not said.whole)
    assert np.abs(column.codes(drawn.to_pylist()) - cells).max() <= 1  # at a seam of floats
    assert len({column.label(cell) for cell in range(column.size)}) == column.size


@pytest.mark.parametrize(
    "domain",
    [
        {},
        [],
        {"c": []},
        {"c": "ab"},
        {"c": [1, 1]},
        {"c": [1, None]},
        {"c": [float("nan")]},
        {"c": [1, "a"]},
        {"c": 5},
        {"a": [1], "A": [1]},
        {1: [1]},
        {"c": [object()]},
    ],
)
def test_a_domain_that_says_nothing_is_refused(domain: Any) -> None:
    with pytest.raises(BadParameter):
        read_domain(domain)


@pytest.mark.parametrize(
    "ends",
    [(1, 1, 2), (2, 1, 2), (0, 1, 0), (0, 2**60, 4), (date(2024, 1, 1), 5, 2), ("a", 2, 3), (0, float("nan"), 3)],
)
def test_a_range_that_is_none_is_refused(ends: Any) -> None:
    with pytest.raises(BadParameter):
        Range(*ends)
