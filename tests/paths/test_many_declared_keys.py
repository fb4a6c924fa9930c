"""Keys that a public table declares are shown, however many they are up to a limit that the refusal names."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato
from sfumato.analysis import groups, keys
from sfumato.engines import build_catalog
from sfumato.errors import QueryTooLarge

KEYS = keys.MAX_GROUP_CELLS + 500


def shop(folder: Path, items: int = KEYS) -> dict[str, Any]:
    """Return a policy in which a public table declares the keys of a column."""
    people = list(range(200))
    sales = pa.table({"who": people, "item": [who % 7 for who in people], "size": [who % 3 for who in people]})
    columns = {
        "who": {"type": "integer"},
        "item": {"type": "integer", "values": "items.id"},
        "size": {"type": "integer", "bounds": [0, 99]},
    }
    return {
        "source": {"sales": sales, "items": pa.table({"id": list(range(items))})},
        "ledger": f"sqlite:{folder / 'shop.ledger'}",
        "budget": {"epsilon": 1000, "delta": "1e-6"},
        "tables": {"sales": {"unit": "who", "rows_per_unit": 1, "columns": columns}, "items": {"public": True}},
    }


def test_every_key_of_a_public_table_is_shown(tmp_path: Path) -> None:
    with sfumato.open(shop(tmp_path)) as database:
        quote = database.explain("SELECT item, COUNT(*) AS n FROM sales GROUP BY item", epsilon=100)
        answer = database.ask("SELECT item, COUNT(*) AS n FROM sales GROUP BY item", epsilon=100)
        assert quote.mechanisms["item"] == "public keys"
        assert quote.loss.delta == 0
        assert [row["item"] for row in answer.rows()] == list(range(KEYS))
        assert sum(row["n"] > 10 for row in answer.rows()) == 7
        few = database.ask("SELECT item, COUNT(*) AS n FROM sales WHERE item IN (3, 9000) GROUP BY item", epsilon=100)
        assert [row["item"] for row in few.rows()] == [3, 9000]


def test_more_cells_than_an_answer_shows_are_refused_by_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sfumato.open(shop(tmp_path)) as database, pytest.raises(QueryTooLarge, match="1,050,000") as refused:
        database.explain("SELECT item, size, COUNT(*) AS n FROM sales GROUP BY item, size", epsilon=1)
    assert "1,000,000" in str(refused.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT item, COUNT(*) AS n FROM sales GROUP BY item",
        "SELECT size, item, COUNT(*) AS n FROM sales GROUP BY size, item",
        "SELECT i, COUNT(*) AS n FROM (SELECT item AS i FROM sales WHERE size > 1) t GROUP BY i",
        "SELECT a.item, COUNT(*) AS n FROM sales a JOIN sales b ON a.who = b.who GROUP BY a.item",
        "SELECT item, COUNT(*) AS n FROM sales WHERE item > 5 GROUP BY item",
    ],
)
def test_more_declared_keys_than_an_answer_shows_are_refused_and_never_selected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    for module in (groups, build_catalog):
        monkeypatch.setattr(module, "MAX_DECLARED_CELLS", KEYS - 1)
    with sfumato.open(shop(tmp_path)) as database:
        with pytest.raises(QueryTooLarge, match=f"more than {KEYS - 1:,} keys of (item|i)"):
            database.explain(sql, epsilon=1)
        few = "SELECT item, COUNT(*) AS n FROM sales WHERE item IN (3, 9000) GROUP BY item"
        assert database.explain(few, epsilon=1).mechanisms["item"] == "public keys"
        database.explain("SELECT COUNT(*) AS n, COUNT(DISTINCT item) AS items FROM sales WHERE item > 5", epsilon=1)
