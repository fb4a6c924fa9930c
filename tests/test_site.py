"""The documentation site builds without a warning, and every page can be found in its navigation."""

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        capture_output=True,
        encoding="utf-8",
        cwd=REPOSITORY,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    pages = {path.parent.name for path in (tmp_path / "site").rglob("index.html")}
    assert {"tutorial_owner", "changes", "architecture", "laplace", "database"} <= pages
    database = (tmp_path / "site" / "api" / "database" / "index.html").read_text(encoding="utf-8")
    assert 'id="sfumato.database.Database.ask"' in database
    sql = (tmp_path / "site" / "sql" / "index.html").read_text(encoding="utf-8")
    for anchor in (
        "joins",
        "quantiles-extremes-modes",
    ):  # sections that moved to pages of their own: old addresses find a link
        assert re.search(rf'<a href="[a-z-]+/#{anchor}" id="{anchor}"', sql), anchor


def test_every_page_of_the_api_reference_names_what_it_shows() -> None:
    """A page of the reference that lost its directive would be empty."""
    pages = sorted((REPOSITORY / "docs" / "api").glob("*.md"))
    assert pages
    assert [page.name for page in pages if page.name != "index.md" and "\n::: sfumato" not in page.read_text()] == []
