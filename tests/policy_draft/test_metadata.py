"""Metadata of other tools becomes a draft: what it says is in the policy, and what is no metadata is refused."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from sfumato.cli import main
from sfumato.errors import BadParameter
from sfumato.policy.policy import Bounds, UnitColumn
from sfumato.policy.reading import read_policy
from sfumato.policy_draft.croissant import read_croissant
from sfumato.policy_draft.draft import DraftOptions
from sfumato.policy_draft.opendp_domains import read_opendp
from sfumato.policy_draft.snowflake import read_snowflake

CSV = "patient_id,age,dept,cost\n1,30,er,2.50\n2,40,icu,3.25\n"
CROISSANT = {
    "@context": {"@vocab": "https://schema.org/", "cr": "http://mlcommons.org/croissant/", "sc": "https://schema.org/"},
    "@type": "sc:Dataset",
    "name": "clinic",
    "distribution": [
        {"@type": "cr:FileObject", "@id": "visits-file", "contentUrl": "data/visits.csv", "encodingFormat": "text/csv"}
    ],
    "recordSet": [
        {
            "@type": "cr:RecordSet",
            "@id": "depts",
            "dataType": "sc:Enumeration",
            "key": {"@id": "depts/code"},
            "field": [{"@type": "cr:Field", "@id": "depts/code", "dataType": "sc:Text"}],
            "data": [{"depts/code": "er"}, {"depts/code": "icu"}],
        },
        {
            "@type": "cr:RecordSet",
            "@id": "records",
            "field": [
                {
                    "@type": "cr:Field",
                    "@id": f"records/{name}",
                    "dataType": kind,
                    "source": {"fileObject": {"@id": "visits-file"}, "extract": {"column": name}},
                    **more,
                }
                for name, kind, more in (
                    ("patient_id", "cr:Int64", {}),
                    ("age", ["sc:Integer"], {"minValue": 0, "maxValue": 120}),
                    ("dept", "sc:Text", {"references": {"field": {"@id": "depts/code"}}}),
                    ("cost", "https://schema.org/Float", {}),
                )
            ],
        },
    ],
}
SNOWFLAKE = """
-- SET PRIVACY DOMAIN BETWEEN (7, 8) is only a comment here
CREATE OR REPLACE PRIVACY POLICY p AS () RETURNS PRIVACY_BUDGET -> PRIVACY_BUDGET(BUDGET_NAME => 'a;b');
ALTER TABLE db.public.visits ADD PRIVACY POLICY p ENTITY KEY (patient_id);
ALTER TABLE visits ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120);
ALTER TABLE IF EXISTS visits MODIFY COLUMN "cost" SET PRIVACY DOMAIN (BETWEEN 0 AND 5000.50);
ALTER TABLE visits ALTER COLUMN dept SET PRIVACY DOMAIN IN ('er', 'icu', 'St. John''s; east');
"""
OPENDP_DOMAINS = {
    "age": {
        "__function__": "atom_domain",
        "__module__": "domains",
        "__kwargs__": {"bounds": {"__tuple__": [0, 120]}, "nan": None, "T": "i64"},
        "__version__": "0.16.0",
    },
    "cost": {
        "__function__": "option_domain",
        "__module__": "domains",
        "__kwargs__": {
            "element_domain": {
                "__function__": "atom_domain",
                "__module__": "domains",
                "__kwargs__": {"bounds": {"__tuple__": [0.0, 5000.5]}, "nan": None, "T": "f64"},
            }
        },
    },
}
OPENDP_SERIES = [
    {
        "__function__": "series_domain",
        "__module__": "domains",
        "__kwargs__": {
            "name": "dept",
            "element_domain": {
                "__function__": "categorical_domain",
                "__module__": "domains",
                "__kwargs__": {"categories": ["er", "icu"]},
            },
        },
    },
    {"__function__": "series_domain", "__kwargs__": {"name": "age", "element_domain": OPENDP_DOMAINS["age"]}},
]


def _file(folder: Path, content: object) -> Path:
    path = folder / "metadata"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_croissant_gives_types_enumerations_and_bounds(tmp_path: Path) -> None:
    found = read_croissant(_file(tmp_path, CROISSANT))
    assert found.types == {
        "visits.patient_id": "integer",
        "visits.age": "integer",
        "visits.dept": "text",
        "visits.cost": "decimal",
    }
    assert found.values == {"visits.dept": ("er", "icu")}
    assert found.bounds == {"visits.age": ("0", "120")}


def test_snowflake_gives_units_bounds_and_values(tmp_path: Path) -> None:
    found = read_snowflake(_file(tmp_path, SNOWFLAKE))
    assert found.units == ("visits=patient_id",)
    assert found.bounds == {"visits.age": ("0", "120"), "visits.cost": ("0", "5000.50")}
    assert found.values == {"visits.dept": ("er", "icu", "St. John's; east")}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "CREATE TABLE t (id INT, age NUMBER(3,0) PRIVACY DOMAIN BETWEEN (0, 90), s TEXT)",
            DraftOptions(bounds={"t.age": ("0", "90")}),
        ),
        (
            "alter table t alter column carrier set privacy domain references a.b.airlines (code)",
            DraftOptions(values={"t.carrier": ("airlines.code",)}),
        ),
        (
            "ALTER TABLE t ALTER COLUMN d SET PRIVACY DOMAIN BETWEEN ('2020-01-01', '2024-12-31')",
            DraftOptions(bounds={"t.d": ("2020-01-01", "2024-12-31")}),
        ),
    ],
)
def test_snowflake_statements_of_every_form_are_read(tmp_path: Path, statement: str, expected: DraftOptions) -> None:
    assert read_snowflake(_file(tmp_path, statement)) == expected


def test_opendp_domains_give_bounds_types_and_categories(tmp_path: Path) -> None:
    found = read_opendp(_file(tmp_path, OPENDP_DOMAINS))
    assert found.bounds == {"age": ("0", "120"), "cost": ("0.0", "5000.5")}
    assert found.types == {"age": "integer", "cost": "decimal"}
    series = read_opendp(_file(tmp_path, OPENDP_SERIES))
    assert (series.values, series.bounds) == ({"dept": ("er", "icu")}, {"age": ("0", "120")})
    context = {"domains": OPENDP_DOMAINS, "privacy_unit": {"contributions": 12, "identifier": "patient_id"}}
    described = read_opendp(_file(tmp_path, context))
    assert (described.units, described.rows_per_unit, described.bounds) == (("patient_id",), {"": 12}, found.bounds)


READERS: list[tuple[str, Callable[[Path], DraftOptions]]] = [
    ("--croissant", read_croissant),
    ("--snowflake", read_snowflake),
    ("--opendp", read_opendp),
]


@pytest.mark.parametrize(("_option", "read"), READERS)
@pytest.mark.parametrize("content", ["", "words", "[1, 2", "[]", "{}", '{"recordSet": 3}', "[" * 100_000, "SELECT 1;"])
def test_what_is_no_metadata_is_refused(
    _option: str, read: Callable[[Path], DraftOptions], content: str, tmp_path: Path
) -> None:
    with pytest.raises(BadParameter, match="is not"):
        read(_file(tmp_path, content))
    with pytest.raises(BadParameter, match="is not"):
        read(tmp_path / "missing")


@pytest.mark.parametrize(
    ("option", "content", "more"),
    [
        ("--croissant", CROISSANT, ["--unit", "patient_id", "--bounds", "cost=0:5000.5"]),
        ("--snowflake", SNOWFLAKE, ["--type", "age=integer", "--type", "patient_id=integer", "--type", "cost=decimal"]),
        ("--opendp", OPENDP_DOMAINS, ["--unit", "patient_id", "--type", "patient_id=integer"]),
    ],
    ids=["croissant", "snowflake", "opendp"],
)
def test_init_writes_a_policy_from_it(tmp_path: Path, option: str, content: object, more: list[str]) -> None:
    (tmp_path / "visits.csv").write_text(CSV)
    words = ["init", str(tmp_path / "visits.csv"), option, str(_file(tmp_path, content)), *more]
    words += ["--rows-per-unit", "5", "--step", "cost=0.01", "--epsilon", "1", "--delta", "0"]
    done = CliRunner().invoke(main, [*words, "-o", str(tmp_path / "clinic.toml")])
    assert done.exit_code == 0, done.output
    table = read_policy(tmp_path / "clinic.toml").tables[0]
    columns = {column.name: column for column in table.columns}
    assert (table.unit, table.rows_per_unit) == (UnitColumn("patient_id"), 5)
    assert columns["age"].bounds == Bounds(0, 120)
    assert columns["cost"].bounds == Bounds(Fraction(0), Fraction("5000.5"))
