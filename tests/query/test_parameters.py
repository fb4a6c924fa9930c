"""A parameter is a value: what it stands for is a literal of the algebra, and never more text."""

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from tests.query.clinic import CLINIC, Clinic, ClinicTable

from sfumato.errors import BadParameter, BadSql, Refusal, UnsupportedSql
from sfumato.query.canonical import canonical
from sfumato.query.declared import Admitted, DeclaredBounds, DeclaredValues
from sfumato.query.describe import describe_query
from sfumato.query.parameters import bind, inline_parameters, literal_of
from sfumato.query.parse import parse
from sfumato.query.types import Type

COUNT = "SELECT COUNT(*) FROM visits"
PAIRS = [
    ("SELECT COUNT(*) FROM visits WHERE age > $1", [40], "SELECT COUNT(*) FROM visits WHERE age > 40"),
    ("SELECT COUNT(*) FROM visits WHERE age - $1 > 3", [-2], "SELECT COUNT(*) FROM visits WHERE age - (-2) > 3"),
    ("SELECT COUNT(*) FROM visits WHERE dept = $1", ["it's"], "SELECT COUNT(*) FROM visits WHERE dept = 'it''s'"),
    ("SELECT COUNT(*) FROM visits WHERE cost < $1", [Decimal("1.5")], "SELECT COUNT(*) FROM visits WHERE cost < 1.5"),
    ("SELECT COUNT(*) FROM visits WHERE cost < $1", [0.1], "SELECT COUNT(*) FROM visits WHERE cost < 0.1"),
    ("SELECT COUNT(*) FROM visits WHERE urgent = $1", [True], "SELECT COUNT(*) FROM visits WHERE urgent = true"),
    (
        "SELECT COUNT(*) FROM visits WHERE day = $1 AND seen < $2",
        [date(2024, 1, 2), datetime(2024, 1, 2, 3)],
        "SELECT COUNT(*) FROM visits WHERE day = DATE '2024-01-02' AND seen < TIMESTAMP '2024-01-02 03:00:00'",
    ),
    ("SELECT COUNT(*) FROM visits WHERE dept = $1", [None], "SELECT COUNT(*) FROM visits WHERE dept = NULL"),
    ("SELECT 1 FROM staff WHERE dept IN ($1, $2)", ["a", "b"], "SELECT 1 FROM staff WHERE dept IN ('a', 'b')"),
    ("SELECT COUNT(*) FROM visits WHERE dept LIKE $1", ["a%"], "SELECT COUNT(*) FROM visits WHERE dept LIKE 'a%'"),
    ("SELECT id FROM staff LIMIT $1 OFFSET $2", [3, 1], "SELECT id FROM staff LIMIT 3 OFFSET 1"),
    ("SELECT AVG(ROUND(cost, $1)) FROM visits", [1], "SELECT AVG(ROUND(cost, 1)) FROM visits"),
    ("SELECT COUNT(*) FROM visits WHERE age = $1::int", ["7"], "SELECT COUNT(*) FROM visits WHERE age = 7"),
    ("WITH v AS (SELECT * FROM staff WHERE id = $1) SELECT id FROM v", [7], "SELECT id FROM staff WHERE id = 7"),
    (f"{COUNT} WHERE age = ANY($1)", [[1, -2, 1]], f"{COUNT} WHERE age IN (1, -2)"),
    (f"{COUNT} WHERE age <> ALL($1)", [(1, None)], f"{COUNT} WHERE age NOT IN (1, NULL)"),
    (f"{COUNT} WHERE age = ANY($1::bigint[])", [["1", "2"]], f"{COUNT} WHERE age IN (1, 2)"),
    (f"{COUNT} WHERE dept = SOME($1)", [["it's", "{}"]], f"{COUNT} WHERE dept IN ('it''s', '{{}}')"),
    (f"{COUNT} WHERE dept = ANY($1)", ['{a,"b c"}'], f"{COUNT} WHERE dept IN ('a', 'b c')"),
    (f"{COUNT} WHERE day = ANY($1)", [[date(2024, 1, 2)]], f"{COUNT} WHERE day IN (DATE '2024-01-02')"),
    (f"{COUNT} WHERE age = ANY($1)", [np.array([3, 4])], f"{COUNT} WHERE age IN (3, 4)"),
    (f"{COUNT} WHERE age = ANY($1)", [pd.Series([3, 4])], f"{COUNT} WHERE age IN (3, 4)"),
    ("SELECT COUNT(*) FROM visits WHERE age = ANY($1)", [[]], "SELECT COUNT(*) FROM visits WHERE FALSE"),
    ("SELECT COUNT(*) FROM visits WHERE age = ANY($1)", [None], "SELECT COUNT(*) FROM visits WHERE NULL"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "values", "written"), PAIRS, ids=lambda part: str(part)[:50])
def test_a_value_beside_the_text_asks_the_same_as_the_value_in_it(sql: str, values: list[object], written: str) -> None:
    bound = parse(sql, CLINIC, bind(values))
    assert canonical(bound) == canonical(parse(written, CLINIC))
    again = inline_parameters(sql, bind(values))
    assert canonical(parse(again, CLINIC)) == canonical(bound)


def test_names_work_like_numbers() -> None:
    sql = "SELECT COUNT(*) FROM visits WHERE age > :least AND dept = :dept::text"
    bound = parse(sql, CLINIC, bind({"least": 40, "dept": "er"}))
    assert canonical(bound) == canonical(parse("SELECT COUNT(*) FROM visits WHERE age > 40 AND dept = 'er'", CLINIC))


@pytest.mark.parametrize(
    "value",
    ["' OR 1=1 --", "'; DROP TABLE visits; --", "\\'", "$2", ":x", "/*", "40) OR (1=1", "%", "é\t"],
)
def test_text_that_looks_like_sql_stays_a_value(value: str) -> None:
    sql = "SELECT COUNT(*) FROM visits WHERE dept = $1"
    query = parse(sql, CLINIC, bind([value]))
    plain = parse(sql, CLINIC, bind(["er"]))
    assert str(query).replace(str(bind([value])["1"]), "?") == str(plain).replace("'er'", "?")  # type: ignore[index]
    assert canonical(parse(inline_parameters(sql, bind([value])), CLINIC)) == canonical(query)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        10**30,
        Fraction(1, 3),
        Decimal("1e400"),
        "a\x00b",
        "x" * 30_000,
        [[1]],
        [b"bytes"],
        {"a": 1},
        list(range(1001)),
        b"bytes",
        1e-300,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_no_literal_can_hold_is_refused(value: object) -> None:
    with pytest.raises(BadParameter):
        bind([value])


@pytest.mark.parametrize("parameters", ["text", 7, {"a b": 1}, {"": 1}, {"0": 1}, {1.5: 2}, [0] * 2000])
def test_strange_sets_of_values_are_refused(parameters: object) -> None:
    with pytest.raises(BadParameter):
        bind(parameters)


def test_a_parameter_without_a_value_is_refused_at_its_place() -> None:
    with pytest.raises(BadSql, match="At 1:41, `\\$2`: no value is given"):
        parse("SELECT COUNT(*) FROM visits WHERE age = $2", CLINIC, bind({"1": 3}))
    with pytest.raises(UnsupportedSql, match="a parameter stands here"):
        parse("SELECT COUNT(*) FROM visits WHERE age = $1", CLINIC)


OUTLINES = [
    ("SELECT dept, COUNT(*) AS n FROM visits WHERE age > $1 GROUP BY dept", ["text", "integer"], ["integer"]),
    ("SELECT AVG(cost) FROM visits WHERE dept = $1 AND day < $2", ["decimal"], ["text", "date"]),
    ("SELECT 1 FROM visits WHERE $1 < cost AND urgent = $2", ["integer"], ["decimal", "boolean"]),
    ("SELECT COUNT(*) FROM visits WHERE seen = $1", ["integer"], ["timestamp"]),
    ("SELECT COUNT(*) FROM visits WHERE age BETWEEN $2 AND $1", ["integer"], ["integer", "integer"]),
    ("SELECT name, id FROM staff LIMIT $1", ["text", "integer"], ["integer"]),
    ("SELECT $1::date, $2, $3::boolean", ["date", "text", "boolean"], ["date", "text", "boolean"]),
    ("SELECT date_trunc($1, seen) AS t, COUNT(*) FROM visits GROUP BY 1", ["timestamp", "integer"], ["text"]),
    ("SELECT SUM(age * $1), SUM(cost + $2) FROM visits", ["integer", "decimal"], ["integer", "decimal"]),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "columns", "parameters"), OUTLINES, ids=lambda part: str(part)[:50])
def test_columns_and_parameters_have_types_before_any_value_is_known(
    sql: str, columns: list[str], parameters: list[str]
) -> None:
    description = describe_query(sql, CLINIC, {})
    assert [type for _, type in description.columns] == columns
    assert [description.parameters[str(number)] for number in range(1, len(parameters) + 1)] == parameters


def test_a_declared_type_is_kept_and_a_contradiction_refused() -> None:
    description = describe_query("SELECT COUNT(*) FROM visits WHERE cost > $1", CLINIC, {"1": Type.INTEGER})
    assert description.parameters == {"1": Type.INTEGER}
    with pytest.raises(Refusal):
        describe_query("SELECT COUNT(*) FROM visits WHERE dept = $1", CLINIC, {"1": Type.DATE})
    with pytest.raises(Refusal):
        describe_query("SELECT COUNT(*) FROM visits WHERE age = $1 AND day = $1", CLINIC, {})


def test_columns_that_carry_noise_are_known_before_any_price() -> None:
    sql = "SELECT dept, COUNT(*) AS n, 2 * SUM(age) + 1 AS s, 7 AS seven FROM visits GROUP BY dept"
    assert describe_query(sql, CLINIC, {}).noisy == (False, True, True, False)
    assert describe_query("SELECT dept, COUNT(*) FROM staff GROUP BY dept", CLINIC, {}).noisy == (False, False)
    joined = (
        "SELECT a.dept, n, m FROM (SELECT dept, COUNT(*) AS n FROM visits GROUP BY dept) a "
        "LEFT JOIN (SELECT dept, COUNT(*) + 1 AS m FROM staff GROUP BY dept) b ON a.dept = b.dept"
    )
    assert describe_query(joined, CLINIC, {}).noisy == (False, True, False)


def test_what_a_column_can_hold_is_for_the_real_value_not_for_a_sample() -> None:
    values: dict[str, Admitted] = {"dept": DeclaredValues(("er", "icu")), "age": DeclaredBounds(18, 90)}
    clinic = Clinic({"visits": ClinicTable({"dept": "text", "age": "integer"}, values=values)})
    sql = "SELECT COUNT(*) FROM visits WHERE dept = $1 AND age = $2"
    assert describe_query(sql, clinic, {}).parameters == {"1": Type.TEXT, "2": Type.INTEGER}
    parse(sql, clinic, bind(["er", 20]))
    for wrong in (["day", 20], ["er", 1]):
        with pytest.raises(BadSql, match="is never"):
            parse(sql, clinic, bind(wrong))


SAME = [
    (np.int64(-3), -3),
    (np.uint8(7), 7),
    (np.float64(1.5), 1.5),
    (np.float32(0.5), 0.5),
    (np.bool_(True), True),
    (np.str_("er"), "er"),
    (np.datetime64("2024-02-29"), date(2024, 2, 29)),
    (np.datetime64("2024-02-29T01:02:03.000004"), datetime(2024, 2, 29, 1, 2, 3, 4)),
    (np.datetime64("2024-02-29", "ns"), datetime(2024, 2, 29)),
    (np.datetime64("NaT"), None),
    (pd.NaT, None),
    (pd.NA, None),
    (pd.Timestamp("2024-02-29 01:02"), datetime(2024, 2, 29, 1, 2)),
    (pd.Timestamp("2024-02-29 01:02", tz="Etc/GMT-1"), datetime(2024, 2, 29, 0, 2)),
]


@pytest.mark.parametrize(("value", "plain"), SAME, ids=repr)
def test_values_of_numpy_and_pandas_are_the_values_they_show(value: object, plain: object) -> None:
    literal = literal_of(value, "$1")
    assert literal == literal_of(plain, "$1")
    assert type(literal.value) is type(literal_of(plain, "$1").value)


@pytest.mark.parametrize(
    "value",
    [
        np.datetime64("2024-02-29T00:00:00.000000001"),
        pd.Timestamp("2024-02-29 00:00:00.000000001"),
        np.datetime64("20000-01-01"),
        np.timedelta64(3, "D"),
        pd.Timedelta(1),
        np.float64("nan"),
        np.float64("inf"),
        np.complex128(1),
        np.uint64(2**63),
        np.bytes_(b"x"),
        np.array([1]),
        np.void(b"x"),
        pd.Series([1]),
    ],
    ids=repr,
)
def test_what_has_no_plain_meaning_is_refused(value: object) -> None:
    with pytest.raises(BadParameter):
        literal_of(value, "$1")


@pytest.mark.parametrize(("sql", "parameters", "arrays"), [
    ("SELECT COUNT(*) FROM visits WHERE age = ANY($1) AND age > $2", {"1": Type.INTEGER, "2": Type.INTEGER}, {"1"}),
    ("SELECT COUNT(*) FROM visits WHERE dept <> ALL($1)", {"1": Type.TEXT}, {"1"}),
    ("SELECT COUNT(*) FROM visits WHERE day = ANY($1::date[])", {"1": Type.DATE}, {"1"}),
    ("SELECT COUNT(*) FROM visits WHERE cost < ANY($1)", {"1": Type.DECIMAL}, {"1"}),
])  # fmt: skip
def test_a_description_tells_which_parameters_are_arrays(
    sql: str, parameters: dict[str, Type], arrays: set[str]
) -> None:
    for known in ({}, parameters):
        found = describe_query(sql, CLINIC, known, arrays if known else ())
        assert (dict(found.parameters), set(found.arrays)) == (parameters, arrays)


def test_a_list_where_one_value_is_needed_is_refused() -> None:
    with pytest.raises(BadSql, match=r"`\$1`: a list is given where one value is needed\. .* x = ANY\(\$1\)"):
        parse("SELECT COUNT(*) FROM visits WHERE age = $1", CLINIC, bind([[1, 2]]))
