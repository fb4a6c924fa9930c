"""Every name and form that tools and people bring along: answered, or refused by name, at the price that was said.

`statements.sql` has them in the form of the recordings. What is refused (0A000) names what to write instead.
"""

from pathlib import Path

import pytest
from tests.clients.replaying import explained, read, send
from tests.server.wire.served import PRICE, errors, served


def test_every_statement_is_answered_or_refused_by_name(tmp_path: Path) -> None:
    statements = read("statements", Path(__file__).parent).statements
    assert len(statements) > 90
    with served(tmp_path, epsilon="100000") as server, server.client(pairs=PRICE) as client:
        for one in statements:
            expected = explained(client, one) if one.verdict == "charged" else 0.0
            before = server.spent()
            said = errors(send(client, one.sql, one.values))
            assert [error["C"] for error in said] == ([] if one.verdict in ("free", "charged") else [one.verdict]), one
            assert server.spent() - before == pytest.approx(expected), one.sql
            assert all(error["H"] and error["D"] for error in said), one.sql  # why, and what next
