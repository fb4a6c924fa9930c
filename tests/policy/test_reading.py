"""What a policy says is read exactly, and what it leaves out or contradicts is refused by key and line."""

import os
import re
import tomllib
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policy.broken import BROKEN
from tests.policy.examples import CLINIC, EVERYTHING, changed, written

from sfumato.accounting.event import Neighbours
from sfumato.errors import BadPolicy, Refusal
from sfumato.policy.keys import KEYS
from sfumato.policy.policy import Bounds, Policy
from sfumato.policy.reading import MAX_POLICY_BYTES, read_policy
from sfumato.policy.table_keys import MAX_DECLARED_VALUES

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "policy").glob("*.md"))
DOCUMENT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def _read(text: str, folder: Path) -> Policy:
    return read_policy(written(text, folder))


def test_the_example_of_the_contract_is_read(tmp_path: Path) -> None:
    policy = _read(CLINIC, tmp_path)
    assert policy.name == "clinic"
    assert (policy.source.scheme, policy.source.path) == ("parquet", tmp_path / "data")
    assert (policy.ledger.scheme, policy.ledger.path) == ("sqlite", tmp_path / "clinic.ledger")
    assert policy.neighbours is Neighbours.ADD_REMOVE
    assert (policy.budget.epsilon, policy.budget.delta) == (Fraction(3), Fraction(1, 10**6))
    assert policy.budget.query_delta == Fraction(1, 10**9)
    assert [table.name for table in policy.tables] == ["visits", "staff"]
    assert [column.name for column in policy.tables[0].columns] == ["patient_id", "age", "dept", "cost"]
    assert [(analyst.name, analyst.epsilon, analyst.delta) for analyst in policy.analysts] == [
        ("research", Fraction(1), Fraction(1, 10**6))
    ]


def test_text_and_path_and_dict_read_the_same(tmp_path: Path) -> None:
    path = written(CLINIC.replace("parquet:data", "parquet:/data").replace("sqlite:", "sqlite:/"), tmp_path)
    document = tomllib.loads(path.read_text(encoding="utf-8"))  # with binary floats
    assert read_policy(path) == read_policy(str(path)) == read_policy(document)


@pytest.mark.parametrize("spelling", [0.1, "0.1", "1/10", Decimal("0.10"), Fraction(1, 10)])
def test_a_decimal_is_the_number_that_was_typed(spelling: object) -> None:
    assert read_policy(changed(lambda p: p["budget"].update(epsilon=spelling))).budget.epsilon == Fraction(1, 10)


@settings(deadline=None)
@given(st.integers(1, 10**40 - 1), st.integers(1, 40))
def test_every_decimal_in_a_file_is_exact(tmp_path_factory: Any, digits: int, places: int) -> None:
    spelling = f"{digits // 10**places}.{digits % 10**places:0{places}d}"
    text = CLINIC.replace("epsilon = 3", f"epsilon = {spelling}")
    assert _read(text, tmp_path_factory.mktemp("exact")).budget.epsilon == Fraction(digits, 10**places)


def test_what_may_be_left_out_has_the_documented_default(tmp_path: Path) -> None:
    text = 'source = "csv:x.csv"\n[budget]\nepsilon = 1\ndelta = 0.001\n[tables.x]\nunit = "rows"\n'
    policy = _read(text, tmp_path)
    assert policy.name == "clinic"  # the file's
    assert policy.ledger.path == tmp_path / "clinic.ledger"
    assert policy.neighbours is Neighbours.ADD_REMOVE
    assert policy.budget.query_delta == Fraction(1, 10**6)
    assert (policy.tables[0].rows_per_unit, policy.tables[0].groups_per_unit) == (1, None)
    assert policy.analysts == ()
    document = {**tomllib.loads(text), "source": "csv:/data/x.csv"}
    assert read_policy(document).name == "dataset"
    assert read_policy(document).ledger.path == Path("/data/dataset.ledger")  # beside the data, wherever we are


def test_a_unique_unit_has_one_row() -> None:
    policy = read_policy(changed(lambda p: p["tables"].update(people=_people({"type": "text", "unique": True}))))
    assert policy.tables[-1].rows_per_unit == 1


def _people(column: dict[str, object]) -> dict[str, object]:
    return {"unit": "id", "columns": {"id": column}}


def test_delta_zero_is_allowed_and_an_analyst_may_be_promised_more_than_the_cap() -> None:
    policy = read_policy(changed(lambda p: p.update(budget={"epsilon": 1, "delta": 0})))
    assert policy.budget.delta == policy.budget.query_delta == 0
    press = policy.analyst("press")
    assert press is not None
    assert press.epsilon > policy.budget.epsilon


def test_bounds_and_steps_are_exact_and_optional() -> None:
    policy = read_policy(EVERYTHING)
    price = policy.tables[1].columns[1]
    assert (price.bounds, price.step) == (Bounds(Fraction(-1, 2), Fraction(1000)), Fraction(1, 20))
    assert policy.tables[1].columns[3].bounds is None
    assert policy.tables[0].columns[2].bounds == Bounds(date(1992, 1, 1), date(1998, 12, 31))


def test_names_of_other_tables_are_spelt_as_they_are_declared() -> None:
    loud = changed(lambda p: p["tables"]["lineitem"].update(unit="ORDERS.O_CUSTKEY  VIA  L_ORDERKEY=O_ORDERKEY"))
    loud["tables"]["lineitem"]["columns"]["l_mode"]["values"] = "Modes.Mode"
    loud["tables"]["orders"]["unit"] = "O_CustKey"
    assert read_policy(loud) == read_policy(EVERYTHING)


def test_a_public_table_without_columns_may_be_referred_to() -> None:
    read_policy(changed(lambda p: p["tables"].update(modes={"public": True})))


@pytest.mark.parametrize(
    ("source", "scheme", "path"),
    [
        ("postgresql://h/db", "postgresql", None),
        ("postgres://h/db", "postgresql", None),
        ("csv:/x", "csv", "/x"),
        ("PARQUET:/x", "parquet", "/x"),
        ("duckdb:/x", "duckdb", "/x"),
        ("spark:/x", "spark", "/x"),
        ("spark:/catalog", "spark", "/catalog"),
        ("spark:catalog", "spark", None),
        ("spark:catalog.lake.sales", "spark", None),
    ],
)
def test_every_scheme_is_read_without_being_opened(source: str, scheme: str, path: str | None) -> None:
    location = read_policy({**EVERYTHING, "source": source}).source
    assert (location.scheme, location.path) == (scheme, path and Path(path))


def test_a_scheme_that_no_engine_reads_is_refused() -> None:
    with pytest.raises(BadPolicy, match="not known here"):
        read_policy({**EVERYTHING, "source": "oracle:sales"})


@pytest.mark.parametrize(
    ("edit", "fragments"), [case[1:] for case in BROKEN], ids=[str(case[0]).replace(" ", "-") for case in BROKEN]
)
def test_a_broken_policy_is_refused_by_key_line_and_remedy(
    edit: tuple[str, str], fragments: tuple[str, ...], tmp_path: Path
) -> None:
    before, after = edit
    assert before in CLINIC
    with pytest.raises(BadPolicy) as caught:
        _read(CLINIC.replace(before, after, 1), tmp_path)
    refusal = caught.value
    assert refusal.code == "bad_policy"
    for fragment in fragments:
        assert fragment in str(refusal)
    assert all(part.endswith(".") for part in (refusal.what, refusal.why, refusal.remedy)), str(refusal)


def test_there_are_enough_broken_policies() -> None:
    assert len({case[0] for case in BROKEN}) == len(BROKEN) >= 60


def _nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


STRANGE: dict[str, dict[str, Any]] = {
    "no table": {"tables": {}},
    "a huge integer": {"budget": {"epsilon": 10**9000, "delta": 0}},
    "a huge fraction": {"budget": {"epsilon": Fraction(10**5000, 3), "delta": 0}},
    "nan": {"budget": {"epsilon": float("nan"), "delta": 0}},
    "true as a number": {"budget": {"epsilon": True, "delta": 0}},
    "an object": {"name": object()},
    "keys that are not text": {1: 2},  # type: ignore[dict-item]
    "a surrogate in a key": {"\ud800": 2},
    "a surrogate in a name": {"tables": {"t": {"unit": "rows", "columns": {"\udfff": {"type": "text"}}}}},
    "a surrogate in a value": {
        "tables": {"t": {"unit": "rows", "columns": {"c": {"type": "text", "values": ["\ud800"]}}}}
    },
    "NULL as a value": {"tables": {"t": {"unit": "rows", "columns": {"c": {"type": "text", "values": [None]}}}}},
    "lists in lists": {"tables": {"t": {"unit": _nested(50_000)}}},
    "a time of day": {"tables": {"t": {"unit": "rows", "columns": {"c": {"type": "date", "bounds": [time(1), 2]}}}}},
    "too many values": {
        "tables": {
            "t": {"unit": "rows", "columns": {"c": {"type": "integer", "values": [*range(MAX_DECLARED_VALUES + 1)]}}},
        }
    },
    "too many tables": {"tables": {f"t{number}": {"public": True} for number in range(1000)}},
    "too many columns": {
        "tables": {"t": {"public": True, "columns": {f"c{number}": {"type": "text"} for number in range(3000)}}}
    },
    "an integer key beyond 64 bits": {
        "tables": {"t": {"unit": "rows", "columns": {"c": {"type": "integer", "values": [2**63]}}}}
    },
    "a dict on a server without a ledger": {"source": "postgresql://h/d", "ledger": None},
}


@pytest.mark.parametrize("keys", STRANGE.values(), ids=list(STRANGE))
def test_what_no_file_can_hold_is_refused_too(keys: dict[str, Any]) -> None:
    document = {key: value for key, value in {**EVERYTHING, **keys}.items() if value is not None}
    with pytest.raises(BadPolicy) as caught:
        read_policy(document)
    assert len(str(caught.value)) < 1000
    assert "line" not in caught.value.what


def test_a_list_of_the_most_values_is_read() -> None:
    column = {"type": "integer", "values": [*range(MAX_DECLARED_VALUES)]}
    read_policy(changed(lambda p: p["tables"].update(t={"unit": "rows", "columns": {"c": column}})))


def test_bounds_may_reach_the_ends_of_64_bits() -> None:
    column = {"type": "integer", "bounds": [-(2**63), 2**63 - 1]}
    read_policy(changed(lambda p: p["tables"].update(t={"unit": "rows", "columns": {"c": column}})))


@pytest.mark.parametrize("source", [None, 5, ["clinic.toml"], b"clinic.toml"])
def test_what_is_no_path_and_no_dict_is_refused(source: Any) -> None:
    with pytest.raises(BadPolicy, match="a file or from a dict"):
        read_policy(source)


@pytest.mark.parametrize("name", ["absent.toml", "", "a\0b", ".", "x" * 5000, "\ud800"])
def test_a_file_that_is_not_there_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadPolicy) as caught:
        read_policy(name)
    assert str(tmp_path) not in str(caught.value)  # only the path that was typed


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadPolicy, match="no policy file"):
        read_policy(tmp_path / "pipe")


def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadPolicy, match="larger than 1048576 bytes"):
        _read(CLINIC + "#" * MAX_POLICY_BYTES, tmp_path)
    _read(CLINIC + "#" * (MAX_POLICY_BYTES - len(CLINIC)), tmp_path)


@pytest.mark.parametrize("key", ["a" + ".a" * 400_000, "[" + "'b'. " * 200_000 + "b]"], ids=["key", "header"])
def test_a_key_of_a_megabyte_is_refused_at_once(key: str, tmp_path: Path) -> None:
    with pytest.raises(BadPolicy, match="joined by dots in line 2"):
        _read(f"# first\n{key} = 1\n", tmp_path)


def test_a_file_that_is_not_utf8_is_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "clinic.toml"
    path.write_bytes(b'name = "x"\nsource = "\xff"\n')
    with pytest.raises(BadPolicy, match="not UTF-8 in line 2"):
        read_policy(path)


def test_a_ledger_that_is_the_policy_or_the_data_is_refused(tmp_path: Path) -> None:
    for name in ("clinic.toml", "data"):
        with pytest.raises(BadPolicy, match=r"ledger \(line 3\) is the file of the policy or of the data"):
            _read(CLINIC.replace("clinic.ledger", name), tmp_path)


def test_no_message_repeats_an_address() -> None:
    for address in ("mysql://u:hunter2@h/d", "postgresql:u:hunter2@h", "hunter2", "host=h password=hunter2"):
        for key in ("source", "ledger"):
            with pytest.raises(BadPolicy) as caught:
                read_policy({**EVERYTHING, key: address})
            assert "hunter2" not in str(caught.value)


_WORDS = st.sampled_from([key.rpartition(".")[2] for key in KEYS]) | st.text(
    st.characters(exclude_categories=[]), max_size=8
)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.fractions()
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(datetime.now().astimezone().tzinfo))
    | st.times()
    | st.binary(max_size=4)
    | st.text(st.characters(exclude_categories=[]), max_size=8)
    | st.sampled_from(["rows", "integer", "decimal", "text", "csv:x", "t.c", "t.c via a = b", "add-remove", "1/0"])
)
_GARBAGE = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(_WORDS, inner, max_size=5)
        | st.dictionaries(st.integers(), inner, max_size=2)
    ),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(_WORDS, _GARBAGE, max_size=8))
def test_garbage_is_a_refusal_and_nothing_else(document: dict[str, Any]) -> None:
    _only_refusals(document)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_garbage_anywhere_in_a_good_policy_is_read_or_a_refusal(data: st.DataObject) -> None:
    def spoil(node: dict[str, Any]) -> None:
        key = data.draw(st.sampled_from(sorted(node)) | _WORDS)
        if isinstance(node.get(key), dict) and data.draw(st.integers(0, 4)):
            spoil(node[key])
        else:
            node[key] = data.draw(_GARBAGE)

    _only_refusals(changed(spoil))


def _refusal_of(document: dict[str, Any] | Path) -> Refusal | None:
    """Return the refusal, or None if the policy is read; anything else that is raised fails the test."""
    try:
        hash(read_policy(document))
    except Refusal as refusal:
        return refusal
    return None


def _only_refusals(document: dict[str, Any] | Path) -> None:
    refusal = _refusal_of(document)
    if refusal is not None:
        assert refusal.code == "bad_policy"
        assert str(refusal).encode()  # a terminal can print it


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(CLINIC)), st.text(max_size=3), st.integers(0, 6))
def test_a_damaged_file_is_read_or_a_refusal(tmp_path_factory: Any, place: int, new: str, cut: int) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    _only_refusals(written(CLINIC[:place] + new + CLINIC[place + cut :], folder))


def test_every_key_is_documented_and_every_documented_key_is_read() -> None:
    documented = re.findall(r"^## `([^`]+)`$", DOCUMENT, re.MULTILINE)
    assert sorted(documented) == sorted(KEYS)


def test_every_key_says_its_type_its_default_and_an_example() -> None:
    sections = re.split(r"^##+ ", DOCUMENT, flags=re.MULTILINE)
    described = {text.split("`")[1]: text for text in sections if text.startswith("`")}
    assert set(described) == set(KEYS)
    for key, text in described.items():
        assert "Type: " in text, key
        assert "Default: " in text, key
        example = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
        assert example, key
        assert key.rpartition(".")[2] in example[1], key


def test_every_example_of_the_document_is_toml_and_the_whole_one_is_a_policy(tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
    assert len(blocks) > len(KEYS)
    for block in blocks:
        tomllib.loads(block)
    whole = [block for block in blocks if "[budget]" in block and "source" in block]
    assert whole
    for block in whole:
        _read(block, tmp_path)
