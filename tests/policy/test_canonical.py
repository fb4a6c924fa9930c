"""Policies of the same meaning have the same hash; any other meaning has another."""

import tomllib
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policy.examples import CLINIC, EVERYTHING, Change, changed, written

from sfumato.policy.canonical import canonical_text, policy_hash, tables_hash
from sfumato.policy.policy import Policy
from sfumato.policy.reading import read_policy


def _again(policy: Policy) -> Policy:
    """Read the canonical text, put somewhere else."""
    return read_policy({**tomllib.loads(canonical_text(policy)), "source": "csv:elsewhere"})


def test_the_canonical_text_is_a_policy_with_the_same_hash(tmp_path: Path) -> None:
    for policy in (read_policy(EVERYTHING), read_policy(written(CLINIC, tmp_path))):
        assert canonical_text(_again(policy)) == canonical_text(policy)
        assert policy_hash(_again(policy)) == policy_hash(policy)


def test_the_hash_of_the_example_never_changes(tmp_path: Path) -> None:
    """A receipt names it: a new hash for an old policy would orphan every old receipt."""
    assert policy_hash(read_policy(written(CLINIC, tmp_path))) == (
        "0bf5a02fadf7b9fce1b73747aa5d6e72bcee731c0994d86c8c9ba1d9b54662b8"
    )


SAME: dict[str, Callable[[str], str]] = {
    "comments": lambda text: "# hello\n" + text.replace("\n[", "\n# more\n["),
    "decimal spelling": lambda text: text.replace("epsilon = 3", "epsilon = 3.00").replace("0.01", "1e-2"),
    "fraction text": lambda text: text.replace("0.01", '"1/100"'),
    "windows line ends": lambda text: text.replace("\n", "\r\n"),
    "case of names": lambda text: text.replace("tables.visits", "tables.VISITS").replace("age  =", "AGE ="),
    "case of the unit": lambda text: text.replace('unit = "patient_id"', 'unit = "Patient_Id"'),
    "order of keys": lambda text: text.replace('age  = { type = "integer", bounds = [0, 120] }\n', "").replace(
        "[tables.staff]", 'age = { bounds = [0, 120], type = "integer" }\n[tables.staff]'
    ),
    "order of tables": lambda text: (
        text.replace("[tables.staff]\npublic = true\n", "") + "[tables.staff]\npublic = true\n"
    ),
    "order of values": lambda text: text.replace('"er", "icu"', '"icu", "er"'),
    "defaults left out": lambda text: text.replace("query_delta = 1e-9\n", "").replace("neighbours = ", "# "),
    "the default delta of an analyst": lambda text: text + "delta = 0.000001\n",
    "a step of one": lambda text: text.replace("bounds = [0, 120]", "bounds = [0, 120.0], step = 1, unique = false"),
    "where the source lies": lambda text: text.replace("parquet:data", "csv:/other"),
    "where the ledger lies": lambda text: text.replace("clinic.ledger", "other.ledger"),
    "a byte order mark": lambda text: "\ufeff" + text,
}


@pytest.mark.parametrize("spelling", SAME.values(), ids=list(SAME))
def test_the_same_meaning_has_the_same_hash(spelling: Callable[[str], str], tmp_path: Path) -> None:
    other = spelling(CLINIC)
    assert other != CLINIC
    policy = read_policy(written(CLINIC, tmp_path))
    assert policy_hash(read_policy(written(other, tmp_path))) == policy_hash(policy)


def _column(name: str, **keys: object) -> Change:
    def change(policy: dict[str, Any]) -> None:
        for table in policy["tables"].values():
            table.get("columns", {}).get(name, {}).update(keys)

    return change


DIFFERENT: dict[str, Change] = {
    "name": lambda p: p.update(name="Shop"),
    "neighbours": lambda p: p.update(neighbours="add-remove"),
    "epsilon": lambda p: p["budget"].update(epsilon="0.33333333333333333333"),
    "delta": lambda p: p["budget"].update(delta=1.0000000000000002e-5),
    "query_delta": lambda p: p["budget"].pop("query_delta"),
    "analyst": lambda p: p["analysts"].pop("press"),
    "analyst's epsilon": lambda p: p["analysts"]["press"].update(epsilon=8),
    "analyst's delta": lambda p: p["analysts"]["press"].pop("delta"),
    "analyst's name": lambda p: p["analysts"].update(new=p["analysts"].pop("press")),
    "table's name": lambda p: p["tables"].update(new=p["tables"].pop("reviews")),
    "table removed": lambda p: p["tables"].pop("reviews"),
    "table made public": lambda p: p["tables"].update(reviews={"public": True}),
    "unit": lambda p: p["tables"]["reviews"].update(unit="stars", rows_per_unit=1),
    "path": lambda p: p["tables"]["lineitem"].update(unit="orders.o_custkey via l_orderkey = o_site"),
    "rows_per_unit": lambda p: p["tables"]["orders"].update(rows_per_unit=51),
    "groups_per_unit": lambda p: p["tables"]["lineitem"].update(groups_per_unit=8),
    "no groups_per_unit": lambda p: p["tables"]["lineitem"].pop("groups_per_unit"),
    "column removed": lambda p: p["tables"]["orders"]["columns"].pop("o_day"),
    "column's type": _column("l_note", type="text"),
    "low": _column("o_site", bounds=[-6, 5]),
    "high": _column("o_day", bounds=[date(1992, 1, 1), date(1999, 1, 1)]),
    "no bounds": lambda p: p["tables"]["orders"]["columns"]["o_site"].pop("bounds"),
    "step": _column("l_price", step=0.1),
    "a step without bounds": _column("l_note", step=1),
    "values": _column("o_site", values=[-5, 5]),
    "reference": _column("l_mode", values=["modes.mode"]),
    "unique": _column("l_orderkey", unique=True),
    "length": _column("l_mode", length=999),
}
BESIDE_THE_TABLES = {"name", "neighbours", "epsilon", "delta", "query_delta", "analyst"} | {
    name for name in DIFFERENT if name.startswith("analyst")
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_meaning_has_another_hash(name: str) -> None:
    before, after = read_policy(EVERYTHING), read_policy(changed(DIFFERENT[name]))
    assert policy_hash(after) != policy_hash(before)
    assert (tables_hash(after) == tables_hash(before)) == (name in BESIDE_THE_TABLES)


@pytest.mark.parametrize(
    "value", ['"', "\\", "\n", "\r", "\t", "\x7f", "\x85", "\u2028", "\ufeff", "", '", unique = true']
)
def test_a_value_that_toml_must_escape_is_read_back(value: str) -> None:
    policy = read_policy(changed(_column("l_mode", values=[value])))
    assert policy_hash(_again(policy)) == policy_hash(policy)


_NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(
    lambda name: name.isprintable() and name == name.strip() and not set('"./\\') & set(name)
)
_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    name=_NAMES,
    table=_NAMES,
    columns=st.dictionaries(_NAMES, st.lists(_TEXTS, min_size=1, max_size=4, unique=True), max_size=4),
    numbers=st.lists(st.decimals(-1000, 1000, places=3), min_size=2, max_size=2).map(sorted),
    epsilon=st.fractions(min_value="1/1000", max_value=100, max_denominator=10**6),
)
def test_hostile_names_and_values_survive_the_round_trip(
    name: str, table: str, columns: dict[str, list[str]], numbers: list[object], epsilon: object, tmp_path_factory: Any
) -> None:
    folded = {key.lower(): {"type": "text", "values": values} for key, values in columns.items() if key.isascii()}
    policy = read_policy(
        {
            "name": name,
            "source": "csv:x",
            "budget": {"epsilon": epsilon, "delta": 0},
            "tables": {
                table: {
                    "unit": "a unit",
                    "rows_per_unit": 1,
                    "columns": {
                        "a unit": {"type": "text"},
                        "a number": {"type": "decimal", "bounds": numbers, "step": "0.001"},
                        **folded,
                    },
                }
            },
        }
    )
    file = tmp_path_factory.mktemp("canonical") / "policy.toml"
    text = canonical_text(policy)
    first, rest = text.split("\n", 1)
    file.write_bytes(f'{first}\nsource = "csv:y"\n{rest}'.encode())
    assert policy_hash(read_policy(file)) == policy_hash(policy)
