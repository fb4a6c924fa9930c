"""Answers in the format that a client asks for: by `format`, by Accept, and the same numbers in each."""

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.server.running import Reply, Running

from sfumato.server.formats import accepted_format

ASKED = {
    "sql": "SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE cost > 62 GROUP BY dept",
    "epsilon": "0.5",
}
MEDIA = {
    "json": "application/json",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.file",
    "parquet": "application/vnd.apache.parquet",
}


def rows_of(reply: Reply, form: str) -> list[tuple[str, int]]:
    """Return keys and counts of a reply."""
    table: Any
    match form:
        case "json":
            return [(row["dept"], row["n"]) for row in reply.json["rows"]]
        case "csv":
            return [(row["dept"], int(row["n"])) for row in csv.DictReader(io.StringIO(reply.body.decode()))]
        case "arrow":
            table = pa.ipc.open_file(reply.body).read_all()
        case _:
            table = pq.read_table(io.BytesIO(reply.body))
    return list(zip(table.column("dept").to_pylist(), table.column("n").to_pylist(), strict=True))


@pytest.mark.parametrize("form", MEDIA)
def test_one_charge_in_every_format_by_address_and_by_accept(server: Running, form: str) -> None:
    first = server.post("/ask", ASKED)
    before, receipt = server.spent(), first.json["receipt"]["id"]
    named = server.post(f"/ask?format={form}", ASKED)
    accepted = server.post("/ask", ASKED, Accept=f"{MEDIA[form]}, */*;q=0.1")
    again = server.get(f"/releases/{receipt}?format={form}")
    for reply in (named, accepted, again):
        assert (reply.status, reply.headers["content-type"].partition(";")[0]) == (200, MEDIA[form])
        assert rows_of(reply, form) == rows_of(first, "json")
        assert int(reply.headers["content-length"]) == len(reply.body)
    assert named.body == accepted.body
    assert named.headers["sfumato-receipt"] == receipt
    assert (named.headers["sfumato-epsilon"], named.headers["sfumato-delta"]) == ("1/2", "0")
    if form != "json":
        assert named.headers["content-disposition"] == f'attachment; filename="clinic-{receipt[:12]}.{form}"'
    assert server.spent() == before


def test_a_parquet_file_carries_intervals_and_the_receipt(server: Running) -> None:
    reply = server.post("/ask?format=parquet&level=0.99", ASKED)
    table: Any = pq.read_table(io.BytesIO(reply.body))
    assert table.column_names == ["dept", "n", "cost", "n_low", "n_high", "cost_low", "cost_high"]
    metadata = {key.decode(): text.decode() for key, text in table.schema.metadata.items()}
    assert json.loads(metadata["sfumato.receipt"])["id"] == reply.headers["sfumato-receipt"]
    wide = server.get(f"/releases/{reply.headers['sfumato-receipt']}?level=0.99").json
    assert table.column("n_low").to_pylist() == [row["n"][0] for row in wide["intervals"]]


@pytest.mark.parametrize("query", ["format=xlsx", "format=", "format=csv&format=json", "level=2", "level=x"])
def test_what_is_wrong_with_a_format_is_refused_before_the_charge(server: Running, query: str) -> None:
    before = server.spent()
    unasked = {"sql": "SELECT COUNT(*) AS n FROM visits WHERE cost < 83", "epsilon": "1"}
    reply = server.post(f"/ask?{query}", unasked)
    assert (reply.status, reply.json["code"]) == (400, "bad_parameter")
    assert server.spent() == before


def test_a_refusal_is_json_whatever_is_accepted(server: Running) -> None:
    reply = server.post("/ask?format=parquet", {"sql": "SELECT patient FROM visits", "epsilon": "1"})
    assert (reply.headers["content-type"], reply.json["code"]) == ("application/json", "unit_revealed")


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", "json"),
        ("*/*", "json"),
        ("text/html,application/xhtml+xml", "json"),
        ("text/csv", "csv"),
        ("TEXT/CSV; charset=utf-8", "csv"),
        ("application/json;q=0.5, text/csv;q=0.9", "csv"),
        ("text/csv;q=0", "json"),
        ("text/csv;q=nan, application/vnd.apache.parquet;q=x", "json"),
        ("application/vnd.apache.parquet, text/csv", "parquet"),
        (",;,;q=", "json"),
        ("text/csv," * 10_000, "csv"),
    ],
)
def test_accept_is_read_as_browsers_and_programs_write_it(accept: str, form: str) -> None:
    assert accepted_format(accept) == form
