"""The deployment record fits the schema that ships with it, whatever the policy says."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner
from tests.made_up_clinic import fresh_clinic

import sfumato
from sfumato.cli import main
from sfumato.errors import BadParameter
from sfumato.reports.checklist import BOTTOM, MIDDLE, TOP
from sfumato.reports.record import OWNERS_FIELDS, UNKNOWN, make_record, record_json, record_schema, record_yaml

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "replace": {"neighbours": "replace"},
    "pure": {"budget": {"epsilon": 1, "delta": 0}},
    "padding": {"padding": "2s"},
    "on change": {"refresh": "on-change"},
    "analysts": {"analysts": {"a": {"epsilon": 1}, "b": {"epsilon": 1}}},
    "rows": {"tables": {"t": {"unit": "rows", "columns": {"day": {"type": "date", "bounds": [date.min, date.max]}}}}},
}
POLICY: dict[str, Any] = {
    "name": "t",
    "budget": {"epsilon": 1, "delta": 1e-6},
    "tables": {
        "t": {"unit": "who", "rows_per_unit": 2, "columns": {"who": {"type": "integer"}}},
        "p": {"public": True},
    },
}


def _valid(record: object) -> None:
    jsonschema.Draft202012Validator(record_schema()).validate(record)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(record_schema())


@pytest.mark.parametrize("name", VARIANTS)
def test_every_record_fits_its_schema_in_both_formats(name: str, tmp_path: Path) -> None:
    policy = POLICY | {"source": f"parquet:{tmp_path / 'data'}"} | VARIANTS[name]
    record = make_record(policy)
    _valid(record)
    assert yaml.safe_load(record_yaml(record)) == json.loads(record_json(record)) == record


def test_a_record_without_a_field_or_with_another_one_does_not_fit(tmp_path: Path) -> None:
    record = make_record(POLICY | {"source": f"parquet:{tmp_path}"})
    for part in (record, record["deployment"], record["deployment"]["privacy_loss"], record["sfumato"]):
        for name in list(part):
            value = part.pop(name)
            with pytest.raises(jsonschema.ValidationError):
                _valid(record)
            part[name] = value
        part["more"] = "x"
        with pytest.raises(jsonschema.ValidationError):
            _valid(record)
        del part["more"]
    _valid(record)


def test_the_checklist_has_the_levels_of_the_guidelines_and_the_topics_of_the_page(tmp_path: Path) -> None:
    items = make_record(POLICY | {"source": f"parquet:{tmp_path}"})["nist_sp_800_226"]
    page = (Path(__file__).resolve().parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    for level in (TOP, MIDDLE, BOTTOM):
        topics = [item["topic"] for item in items if item["level"] == level]
        assert f"| {level} | {', '.join(topics)} |" in page
    assert {item["level"] for item in items} == {TOP, MIDDLE, BOTTOM}
    assert f"a checklist of {len(items)} topics" in page


def test_a_record_says_what_the_ledger_says(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    with sfumato.open(policy) as database:
        database.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.25")
        head = database.verify().head
    record = make_record(policy)
    _valid(record)
    assert record["sfumato"]["questions"] == 1
    assert record["sfumato"]["certified_total"]["epsilon"] == "0.25"
    assert record["sfumato"]["ledger"]["head"] == head
    assert record["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": "3", "delta": "1e-7"}


def test_the_owner_fills_in_what_only_they_know(tmp_path: Path) -> None:
    policy = POLICY | {"source": f"parquet:{tmp_path}"}
    deployment = make_record(policy, {"data_curator": "The clinic"})["deployment"]
    assert deployment["data_curator"] == "The clinic"
    assert {name for name in OWNERS_FIELDS if deployment[name] == UNKNOWN} == set(OWNERS_FIELDS) - {
        "name",
        "data_curator",
    }
    with pytest.raises(BadParameter):
        make_record(policy, {"privacy_loss": "none"})


def test_the_command_writes_both_formats_and_the_schema(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    for form, read in (("yaml", yaml.safe_load), ("json", json.loads)):
        run = CliRunner().invoke(main, ["record", str(policy), "--format", form, "--field", "data_curator=Clinic"])
        assert run.exit_code == 0, run.output
        _valid(read(run.stdout))
    assert json.loads(CliRunner().invoke(main, ["record", str(policy), "--schema"]).stdout) == record_schema()
    assert CliRunner().invoke(main, ["record", str(policy), "--field", "name"]).exit_code == 2
