"""docs/psql.md and docs/your_tool.md say what happens: their statements run over the wire."""

import re
from pathlib import Path

import pytest
from tests.server.wire.served import Served

from sfumato.errors import REFUSALS
from sfumato.server.wire.sqlstates import SQLSTATES

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "psql.md").read_text(encoding="utf-8")
TOOLS = (DOCS / "your_tool.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?ms)^```sql\n(.*?)^```", PAGE + TOOLS)


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
