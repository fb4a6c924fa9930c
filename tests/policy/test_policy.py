"""A policy is frozen and exact, finds names in any case, and shows no place where things lie."""

from dataclasses import FrozenInstanceError
from datetime import date, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policy.examples import EVERYTHING

from sfumato.policy.policy import (
    Column,
    ColumnType,
    Policy,
    Reference,
    RowUnit,
    UnitColumn,
    UnitPath,
    fold_name,
    position,
)
from sfumato.policy.reading import read_policy


@pytest.fixture(scope="module")
def policy() -> Policy:
    return read_policy(EVERYTHING)


def _column(policy: Policy, table: str, column: str) -> Column:
    found = policy.table(table)
    assert found is not None
    named = found.column(column)
    assert named is not None
    return named


def test_nothing_can_be_changed(policy: Policy) -> None:
    with pytest.raises(FrozenInstanceError):
        policy.budget.epsilon = Fraction(9)  # type: ignore[misc]
    assert hash(policy) == hash(read_policy(EVERYTHING))
    assert policy == read_policy(EVERYTHING)


def test_changing_the_dict_afterwards_changes_nothing() -> None:
    values = ["a"]
    tables = {"t": {"unit": "rows", "columns": {"c": {"type": "text", "values": values}}}}
    policy = read_policy({"source": "csv:x", "budget": {"epsilon": 1, "delta": 0}, "tables": tables})
    values.append("b")
    assert _column(policy, "t", "c").values == ("a",)


def test_names_are_found_in_any_case_and_keep_their_spelling(policy: Policy) -> None:
    assert _column(policy, "LineItem", "L_MODE").name == "l_mode"
    press = policy.analyst("PRESS")
    assert press is not None
    assert press.name == "press"
    assert policy.table("absent") is None
    assert policy.analyst("absent") is None
    assert policy.tables[0].column("absent") is None


@settings(deadline=None)
@given(st.text())
def test_folding_touches_ascii_letters_only(name: str) -> None:
    expected = "".join(character.lower() if character.isascii() else character for character in name)
    assert fold_name(name) == expected


def test_units_are_a_column_a_path_or_each_row(policy: Policy) -> None:
    units = {table.name: table.unit for table in policy.tables}
    assert units == {
        "orders": UnitColumn("o_custkey"),
        "lineitem": UnitPath("orders", "o_custkey", "l_orderkey", "o_orderkey"),
        "reviews": RowUnit(),
        "modes": None,
    }
    assert [table.public for table in policy.tables] == [False, False, False, True]
    assert [table.rows_per_unit for table in policy.tables] == [50, 200, 1, None]
    assert [table.groups_per_unit for table in policy.tables] == [None, 7, None, None]


def test_public_keys_are_exact_values_or_a_reference(policy: Policy) -> None:
    assert _column(policy, "lineitem", "l_mode").values == Reference("modes", "mode")
    assert _column(policy, "lineitem", "l_price").values == (Fraction(1, 10), Fraction(1, 5))
    assert _column(policy, "orders", "o_open").values == (True, False)


@pytest.mark.parametrize(
    ("table", "column", "least", "greatest"),
    [
        ("lineitem", "l_price", -10, 20_000),
        ("orders", "o_site", -5, 5),
        ("orders", "o_open", 0, 1),
        ("orders", "o_day", (date(1992, 1, 1) - date(1970, 1, 1)).days, (date(1998, 12, 31) - date(1970, 1, 1)).days),
        ("orders", "o_at", 694_224_000_000_000, 915_148_800_000_001),
        ("reviews", "stars", 1, 5),
    ],
)
def test_bounds_are_integers_on_the_grid(policy: Policy, table: str, column: str, least: int, greatest: int) -> None:
    grid = _column(policy, table, column).grid
    assert grid is not None
    assert (grid.least, grid.greatest) == (least, greatest)
    assert (grid.least * grid.step, grid.greatest * grid.step) == (grid.low, grid.high)


def test_what_nothing_bounds_has_no_grid(policy: Policy) -> None:
    assert _column(policy, "lineitem", "l_note").grid is None
    assert _column(policy, "lineitem", "l_mode").grid is None
    assert _column(policy, "orders", "o_orderkey").grid is None


@settings(deadline=None)
@given(st.datetimes(), st.datetimes())
def test_positions_keep_the_order_and_distance_of_timestamps(one: datetime, other: datetime) -> None:
    assert other + timedelta(microseconds=int(position(one) - position(other))) == one


@settings(deadline=None)
@given(st.dates())
def test_positions_of_dates_count_days(day: date) -> None:
    assert position(day) == day.toordinal() - date(1970, 1, 1).toordinal()


def test_text_has_no_position() -> None:
    with pytest.raises(TypeError):
        position("er")


def test_the_repr_of_a_policy_shows_no_path_and_no_password() -> None:
    url = "postgresql://owner:hunter2@host/db"
    policy = read_policy({**EVERYTHING, "ledger": url, "source": "csv:/secret/place"})
    assert policy.ledger.target == url
    assert "hunter2" not in repr(policy)
    assert "secret" not in repr(policy)


def test_the_column_types_are_the_documented_six() -> None:
    assert {str(kind) for kind in ColumnType} == {"integer", "decimal", "boolean", "date", "timestamp", "text"}
