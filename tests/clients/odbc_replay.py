"""The statements of tools by psqlODBC, with the cursors that Tableau asks the driver for.

Run by the Python of `tests.clients.matrix` that has pyodbc. Arguments: an address without its scheme, then files of
recorded statements. It prints the version, then one line per tool and setting.
"""

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

STATEMENT = re.compile(r"(?ms)^-- => (\w+)\n(?:-- values: (.*?)\n)?(.*?)(?=^-- => |\Z)")
CURSOR = re.compile(r"(?is)(?:begin;)?declare \S+ cursor with hold for (.*?);\s*fetch .*")
SETTINGS = {
    "whole answers": {"UseDeclareFetch": 0},
    "cursors of 2048 rows": {"UseDeclareFetch": 1, "Fetch": 2048},
    "cursors of 2 rows": {"UseDeclareFetch": 1, "Fetch": 2},
}
"""Tableau's settings are the second ones."""


def connect(address: str, settings: dict[str, int]) -> Any:
    """Return a connection."""
    parts = urlsplit(f"postgresql:{address}")
    words = {
        "Driver": "{PostgreSQL Unicode}", "Server": parts.hostname, "Port": parts.port, "Uid": parts.username,
        "Pwd": parts.password, "Database": parts.path[1:], "ConnSettings": "{SET sfumato.epsilon = 1}", **settings,
    }  # fmt: skip
    given = ";".join(f"{key}={value}" for key, value in words.items())
    return import_module("pyodbc").connect(given, autocommit=True)


def replay(address: str, path: Path, settings: dict[str, int]) -> str:
    """Send the statements of a tool, and say how many worked, or what failed."""
    connection, done, rows = connect(address, settings), 0, 0
    for verdict, values, text in STATEMENT.findall(path.read_text(encoding="utf-8")):
        sql = text.strip()
        declared = CURSOR.fullmatch(sql)
        if declared or sql.lower().startswith("close "):  # the driver makes its own cursors
            if declared is None:
                continue
            sql = declared[1]
        given = json.loads(values) if values else []
        asked = re.sub(r"\$\d+", "?", sql) if given else sql
        state = ""
        try:
            cursor = connection.execute(asked, *given)
            while True:
                rows += len(cursor.fetchall()) if cursor.description else 0
                if not cursor.nextset():
                    break
        except import_module("pyodbc").Error as error:
            state = str(error.args[0])
        expected = "" if verdict in ("free", "charged") else verdict
        if state != expected:
            return f"FAILED {state!r} instead of {verdict} by {sql[:300]}"
        done += 1
    return f"{done} statements, {rows} rows"


if __name__ == "__main__":
    library = import_module("pyodbc")
    versions = connect(sys.argv[1], {}).getinfo(library.SQL_DRIVER_VER)
    print(f"psqlODBC {versions} with pyodbc {library.version}")
    said = {
        f"{Path(file).stem}, {name}": replay(sys.argv[1], Path(file), settings)
        for name, settings in SETTINGS.items()
        for file in sys.argv[2:]
    }
    for name, words in said.items():
        print(f"{name}: {words}")
    sys.exit(any("FAILED" in words for words in said.values()))
