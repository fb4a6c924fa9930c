"""What a policy says about sealing is read exactly, and what a store of ciphertexts cannot hold is refused."""

import copy
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sfumato
from sfumato.errors import BadPolicy
from sfumato.policy.canonical import policy_hash
from sfumato.policy.policy import SealedTable
from sfumato.policy.reading import read_policy
from sfumato.policy.sealing import values_of

SEALED: dict[str, Any] = {
    "name": "clinic",
    "sealed": {"key": "file:/keys/clinic.key", "store": "duckdb:/store/c.duckdb", "epsilon": 0.5, "delta": 1e-9},
    "budget": {"epsilon": 3, "delta": 1e-6},
    "tables": {
        "visits": {
            "unit": "patient_id",
            "rows_per_unit": 4,
            "cells": ["dept", "urgent"],
            "measures": ["cost", "age"],
            "squares": ["cost"],
            "nulls": ["age"],
            "splayed": ["hiv"],
            "capacity": 1000,
            "columns": {
                "patient_id": {"type": "integer"},
                "dept": {"type": "text", "values": ["surgery", "er", "icu"]},
                "urgent": {"type": "boolean"},
                "hiv": {"type": "boolean"},
                "cost": {"type": "decimal", "bounds": [0, 5000], "step": 0.01},
                "age": {"type": "integer", "bounds": [0, 120]},
                "note": {"type": "text"},
                "once": {"type": "integer", "bounds": [0, 9], "unique": True},
                "many": {"type": "integer", "values": list(range(9000)), "bounds": [0, 9000]},
            },
        }
    },
}
Change = Callable[[dict[str, Any]], Any]


def changed(change: Change) -> dict[str, Any]:
    document = copy.deepcopy(SEALED)
    change(document)
    return document


def visits(**keys: object) -> Change:
    return lambda p: p["tables"]["visits"].update(keys)


def sealed(**keys: object) -> Change:
    return lambda p: p["sealed"].update(keys)


def test_a_sealed_policy_is_read() -> None:
    policy = read_policy(SEALED)
    assert policy.sealed is not None
    assert (policy.sealed.key.path, policy.sealed.store.path) == (Path("/keys/clinic.key"), Path("/store/c.duckdb"))
    assert (policy.sealed.epsilon, policy.sealed.delta, policy.sealed.integrity) == (
        Fraction(1, 2),
        Fraction(1, 10**9),
        16,
    )
    assert policy.ledger.path == Path("/keys/clinic.ledger")
    table = policy.tables[0]
    assert table.sealed == SealedTable(("dept", "urgent"), ("cost", "age"), ("cost",), ("age",), ("hiv",), 1000)
    assert [values_of(column) for column in table.columns[1:3]] == [("er", "icu", "surgery"), (False, True)]


BROKEN: tuple[tuple[str, Change, str], ...] = (
    ("source beside it", lambda p: p.update(source="csv:x"), "source is written beside"),
    ("refresh beside it", lambda p: p.update(refresh="manual"), "refresh is written beside"),
    ("no key", lambda p: p["sealed"].pop("key"), "sealed.key is missing"),
    ("no store", lambda p: p["sealed"].pop("store"), "sealed.store is missing"),
    ("no epsilon", lambda p: p["sealed"].pop("epsilon"), "sealed.epsilon is missing"),
    ("no delta", lambda p: p["sealed"].pop("delta"), "sealed.delta is missing"),
    ("key with the store", sealed(key="file:/store/clinic.key"), "lies in the folder of the store"),
    ("key below the store", sealed(key="file:/store/a/b/clinic.key"), "lies in the folder of the store"),
    ("key by a detour", sealed(key="file:/keys/../store/clinic.key"), "lies in the folder of the store"),
    ("key of another scheme", sealed(key="env:KEY"), "sealed.key starts with"),
    ("store of another scheme", sealed(store="csv:x"), "sealed.store starts with"),
    ("free sizes", sealed(epsilon=0), "sealed.epsilon is 0"),
    ("delta zero", sealed(delta=0), "would never end"),
    ("integrity", sealed(integrity=65), "from 1 to 64"),
    ("unknown key", sealed(nonce="00"), "nonce is not a key"),
    ("public table", lambda p: p["tables"].update(staff={"public": True}), "private tables only"),
    ("groups per unit", visits(groups_per_unit=2), "cannot tell people apart"),
    ("a cell without values", visits(cells=["note"]), "lists no values"),
    ("a splayed column without values", visits(splayed=["note"]), "lists no values"),
    ("a measure without bounds", visits(measures=["note"]), "number with bounds"),
    ("a measure with values", visits(measures=["many"], squares=[], nulls=[]), "belongs into cells"),
    ("the unit as a cell", visits(cells=["patient_id"]), "is the unit"),
    ("an unknown column", visits(cells=["dpet"]), "Did you mean dept?"),
    ("a column twice", visits(cells=["dept", "DEPT"]), "repeats"),
    ("a column in two ways", visits(cells=["hiv"]), "in one way"),
    ("a unique column", visits(measures=["once"], squares=[], nulls=[]), "declared unique"),
    ("squares of no measure", visits(squares=["dept"]), "not a measure"),
    ("nulls of no measure", visits(nulls=["dept"]), "not a measure"),
    ("too many cells", visits(cells=["dept", "urgent", "many", "hiv"], splayed=[]), "at most 65536"),
    ("too many splayed", visits(splayed=["many"]), "at most 32"),
    ("capacity zero", visits(capacity=0), "from 1 to"),
    ("cells without sealing", lambda p: (p.pop("sealed"), p.update(source="csv:x")), "without \\[sealed\\]"),
)


@pytest.mark.parametrize(("change", "says"), [one[1:] for one in BROKEN], ids=[one[0] for one in BROKEN])
def test_what_cannot_be_sealed_is_refused(change: Change, says: str) -> None:
    with pytest.raises(BadPolicy, match=says):
        read_policy(changed(change))


def test_a_link_hides_no_key(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "keys").symlink_to(tmp_path / "store")
    places = sealed(key=f"file:{tmp_path}/keys/c.key", store=f"duckdb:{tmp_path}/store/c.duckdb")
    with pytest.raises(BadPolicy, match="folder of the store"):
        read_policy(changed(places))


def test_what_is_promised_is_part_of_the_hash_and_places_are_not() -> None:
    same = (sealed(key="file:/elsewhere/k"), sealed(store="duckdb:/s/t"), visits(cells=["urgent", "DEPT"]))
    other = (
        sealed(epsilon=1),
        sealed(delta=1e-8),
        sealed(integrity=17),
        visits(cells=["dept"]),
        visits(measures=["cost"], nulls=[]),
        visits(squares=[]),
        visits(nulls=[]),
        visits(splayed=[]),
        visits(capacity=1001),
    )
    first = policy_hash(read_policy(SEALED))
    assert {policy_hash(read_policy(changed(change))) for change in same} == {first}
    hashes = {policy_hash(read_policy(changed(change))) for change in other}
    assert len(hashes | {first}) == len(other) + 1


def test_the_plain_door_does_not_open_a_sealed_policy() -> None:
    with pytest.raises(BadPolicy, match="open_sealed"):
        sfumato.open(SEALED)
