"""dbt over the wire protocol: run by the Python of `tests.clients.matrix` or `tests.clients.recording`.

Argument: an address without its scheme. It prints the version, then one line per step. dbt takes its price from the
policy or from PGOPTIONS.
"""

import json
import os
import sys
import tempfile
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

BY_DEPT = "select dept, count(*) as n from {{ source('clinic', 'visits') }} group by 1"
SOURCES = """
sources:
  - name: clinic
    schema: public
    tables:
      - name: visits
        columns:
          - name: dept
            tests:
              - not_null: {config: {error_if: "> 40", warn_if: "> 40"}}
              - accepted_values: {values: [er, icu, surgery]}
      - name: staff
        columns:
          - {name: id, tests: [not_null, unique]}
"""


def project(folder: Path, address: str) -> None:
    """Write a project with one model and two sources."""
    parts = urlsplit(f"postgresql:{address}")
    output = {
        "type": "postgres", "host": parts.hostname, "port": parts.port, "user": parts.username, "threads": 1,
        "password": parts.password, "dbname": parts.path[1:], "schema": "public",
    }  # fmt: skip
    (folder / "models").mkdir()
    (folder / "profiles.yml").write_text(json.dumps({"clinic": {"target": "here", "outputs": {"here": output}}}))
    (folder / "dbt_project.yml").write_text(json.dumps({"name": "clinic", "version": "1.0", "profile": "clinic"}))
    (folder / "models" / "by_dept.sql").write_text(BY_DEPT)
    (folder / "models" / "sources.yml").write_text(SOURCES)


def main(address: str) -> bool:
    """Run the commands that read; return whether all of them did."""
    steps: dict[str, list[str]] = {
        "debug": ["debug"],
        "show a query": ["show", "--inline", BY_DEPT, "--limit", "3"],
        "show a model": ["show", "--select", "by_dept"],
        "compile": ["compile"],
        "test the sources": ["test"],
        "docs generate": ["docs", "generate"],
    }
    os.environ.update({"PGOPTIONS": "-c sfumato.epsilon=1", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"})
    print(f"dbt {version('dbt-core')} with dbt-postgres {version('dbt-postgres')}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        project(Path(folder), address)
        os.chdir(folder)
        runner: Any = import_module("dbt.cli.main").dbtRunner()
        done = {name: runner.invoke([*words, "--quiet", "--no-use-colors"]) for name, words in steps.items()}
        for name, result in done.items():
            print(f"{name}: {'ok' if result.success else f'FAILED {result.exception}'}")
        catalogue = json.loads(Path("target/catalog.json").read_text())["sources"]
        print(f"docs generate, columns: {[sorted(table['columns']) for table in catalogue.values()]}")
        os.chdir("/")
    return all(result.success for result in done.values())


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1]) else 1)
