"""Notebook views of a database and of a quote: what can be asked and at which price, harmless whatever names hold."""

from pathlib import Path
from xml.etree import ElementTree

from tests.made_up_clinic import fresh_clinic

import sfumato


def _read(page: str) -> str:
    """Return the text of a page, which is well formed."""
    root = ElementTree.fromstring(f"<div>{page.replace('<br>', '<br/>')}</div>")  # noqa: S314 - our own page
    return " ".join(" ".join(root.itertext()).split())


def test_a_database_shows_its_tables_and_what_is_left(tmp_path: Path) -> None:
    database = sfumato.open(fresh_clinic(tmp_path), analyst="research")
    page = _read(database._repr_html_())
    for words in (
        "clinic, as research",
        "visits",
        "at most 20 rows each",
        "0 to 5000, in steps of 0.01",
        "remaining  ε = 1",
    ):
        assert " ".join(words.split()) in page
    database.close()
    assert "It is closed." in _read(database._repr_html_())


def test_a_quote_shows_columns_margins_and_notes(tmp_path: Path) -> None:
    with sfumato.open(fresh_clinic(tmp_path)) as database:
        quote = database.explain(
            'SELECT dept AS "<b>", COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY 1', epsilon="1"
        )
    html = quote._repr_html_()
    assert "<b>" not in html
    page = _read(html)
    assert f"±{quote.margins['n']}" in page
    assert "depends on the data" in page
    assert "price: ε = 1, δ = 0; nothing was spent or read" in page
    assert all(" ".join(note.split()) in page for note in quote.notes)
