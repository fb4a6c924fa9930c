"""What the owner of a dataset does beside questions: accounts without data, shared answers, sources that are wrong."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.refusals import refusing

import sfumato
from sfumato.cli import main

COLUMNS = {"patient_id": {"type": "integer"}, "age": {"type": "integer", "bounds": [0, 120]}}


def _policy(folder: Path, source: str, **more: object) -> dict[str, object]:
    return {
        "source": source,
        "ledger": f"sqlite:{folder / 'clinic.ledger'}",
        "budget": {"epsilon": 1, "delta": 0},
        "tables": {"visits": {"unit": "patient_id", "rows_per_unit": 1, "columns": COLUMNS}},
        "analysts": {"research": {"epsilon": "0.5"}, "press": {"epsilon": "0.5"}},
        **more,
    }


def _visits(folder: Path) -> Path:
    path = folder / "visits.csv"
    path.write_text("patient_id,age\n" + "".join(f"{one},{one % 90}\n" for one in range(200)), encoding="utf-8")
    return path


def test_two_analysts_get_the_same_release_for_one_charge(tmp_path: Path) -> None:
    policy = _policy(tmp_path, f"csv:{_visits(tmp_path)}", answers="shared")
    question = "SELECT COUNT(*) AS n FROM visits"
    with sfumato.open(policy, analyst="research") as research, sfumato.open(policy, analyst="press") as press:
        first, second = (one.ask(question, epsilon="0.1") for one in (research, press))
        assert (first.rows(), first.receipt) == (second.rows(), second.receipt)
        assert press.budget().spent.epsilon == 0
        assert research.budget().spent.epsilon > 0
        assert press.ask(question, epsilon="0.2").receipt != first.receipt  # another price is another question


@pytest.mark.parametrize(
    ("source", "content"),
    [
        ("parquet:nowhere", None),
        ("csv:visits.csv", b""),
        ("csv:visits.csv", b"patient_id,age\n1\n"),
        ("csv:visits.csv", b"patient_id\n1\n"),
        ("csv:visits.csv.gz", b"\x1f\x8bnothing"),
        ("parquet:visits.parquet", b"nothing"),
        ("duckdb:visits.duckdb", b"nothing of a database, however long it may be"),
    ],
)
def test_a_source_that_cannot_be_read_leaves_nothing_behind(source: str, content: bytes | None, tmp_path: Path) -> None:
    scheme, _, name = source.partition(":")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    (tmp_path / "here").mkdir()
    for analyst in (None, "press"):
        with refusing():
            sfumato.open(_policy(tmp_path / "here", f"{scheme}:{tmp_path / name}"), analyst=analyst)
        assert list((tmp_path / "here").iterdir()) == []


def test_budget_history_and_verify_work_when_the_data_is_away(tmp_path: Path) -> None:
    _visits(tmp_path)
    (tmp_path / "clinic.toml").write_text(
        'source = "csv:visits.csv"\n[budget]\nepsilon = 1\ndelta = 0\n[tables.visits]\nunit = "patient_id"\n'
        'rows_per_unit = 1\n[tables.visits.columns]\npatient_id = { type = "integer" }\n'
        "[analysts.press]\nepsilon = 0.5\n",
        encoding="utf-8",
    )
    policy = str(tmp_path / "clinic.toml")

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, [*arguments])
        assert result.exit_code == 0, result.output
        return result.output

    assert "spent      ε = 0, δ = 0" in run("budget", policy)
    assert run("history", policy) == "Nothing was asked yet.\n"
    assert "no ledger yet" in run("verify", policy)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clinic.toml", "visits.csv"]
    run("ask", policy, "SELECT COUNT(*) FROM visits", "--epsilon", "0.25", "--analyst", "press")
    (tmp_path / "visits.csv").unlink()
    for left in tmp_path.glob("*.copy*"):
        left.unlink()
    assert "The source is not at the location that the policy names" in run("budget", policy)
    everybody = run("budget", policy, "--all")
    assert [line.split()[:3] for line in everybody.splitlines()[2:4]] == [
        ["(dataset)", "25", "%"],
        ["press", "50", "%"],
    ]
    assert [one["account"] for one in json.loads(run("budget", policy, "--all", "--format", "json"))] == ["", "press"]
    assert "press" in run("history", policy, "--all")
    assert run("history", policy) == "Nothing was asked yet.\n"
    assert "3 entries" in run("verify", policy)
    assert CliRunner().invoke(main, ["history", policy, "--all", "--analyst", "press"]).exit_code == 2
