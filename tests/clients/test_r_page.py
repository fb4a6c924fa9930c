"""The code of docs/r.md runs in R, over the wire protocol, and costs what the page says."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.server.wire.served import served

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "r.md").read_text(encoding="utf-8")
PACKAGES = ("DBI", "dplyr", "dbplyr", "RPostgreSQL")
SECONDS = 120


def _has_packages() -> bool:
    if not shutil.which("Rscript"):
        return False
    found = " && ".join(f'requireNamespace("{name}", quietly = TRUE)' for name in PACKAGES)
    return (
        subprocess.run(["Rscript", "-e", f"q(status = !({found}))"], capture_output=True, check=False).returncode == 0
    )


def test_the_page_has_code() -> None:
    assert PAGE.count("```r\n") >= 5


@pytest.mark.skipif(not shutil.which("Rscript"), reason="R IS NOT INSTALLED: r-cran-dbplyr, r-cran-rpostgresql")
def test_the_page_runs_in_r(tmp_path: Path) -> None:
    if not _has_packages():
        pytest.skip(f"R has not all of {PACKAGES}")
    script = tmp_path / "page.R"
    script.write_text("\n".join(re.findall(r"(?ms)^```r\n(.*?)^```$", PAGE)), encoding="utf-8")
    with served(tmp_path) as server:
        place = urlsplit(f"postgresql:{server.url}")
        environment = {
            **os.environ,
            "SFUMATO_HOST": str(place.hostname),
            "SFUMATO_PORT": str(place.port),
            "SFUMATO_PASSWORD": str(place.password),
        }
        run = subprocess.run(
            ["Rscript", str(script)], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert run.returncode == 0, run.stderr
        assert server.spent() == 1.0, "two questions at 0.5; everything else is free"
    said = run.stdout
    assert re.search(r'"dept"', said)
    assert "SELECT" in said
    assert '"n_low"' in said
    assert "cost=0..0.5" in said
    assert "Only aggregates" in said, said
