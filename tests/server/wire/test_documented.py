"""docs/psql.md says what happens: its statements run over the wire, its table of states is that of the source."""

import re
from pathlib import Path

import pytest
from tests.server.wire.served import Served

from sfumato.errors import REFUSALS
from sfumato.server.wire.sqlstates import SQLSTATES

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "psql.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?ms)^```sql\n(.*?)^```", PAGE)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0][:50])
def test_the_statements_of_the_page_do_what_it_says(server: Served, block: str) -> None:
    with server.client() as client:
        if "PREPARE" in block:
            client.query("SET sfumato.epsilon = '0.5'")
        for line in block.splitlines():
            sql, _, said = line.partition(" -- ")
            assert client.state(sql) == said[:5], line


def test_the_table_of_states_is_the_one_in_the_source() -> None:
    rows = re.findall(r"(?m)^\| (\w{5}) \| (.*) \|$", PAGE)
    written = {code: state for state, codes in rows for code in re.findall(r"`(\w+)`", codes)}
    assert written == {refusal.code: SQLSTATES[refusal.code] for refusal in REFUSALS}
