"""pgAdmin over the wire protocol: run by the Python of `tests.clients.matrix` or `tests.clients.recording`.

pgAdmin itself runs, without its browser: its pages are requested as the browser requests them. Argument: an address
without its scheme. It prints the version, then one line per step.
"""

import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

BY_DEPT = "SELECT dept, AVG(age) AS age FROM public.visits GROUP BY dept ORDER BY dept"


def application(folder: str) -> Any:
    """Return pgAdmin in desktop mode with its files in a folder."""
    spec = find_spec("pgadmin4")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("pgadmin4", name="pgadmin4")
    sys.path.insert(0, spec.submodule_search_locations[0])
    os.environ["HOME"] = folder
    config: Any = import_module("config")
    config.SERVER_MODE, config.MASTER_PASSWORD_REQUIRED, config.USE_OS_SECRET_STORAGE = False, False, False
    config.UPGRADE_CHECK_ENABLED, config.CONSOLE_LOG_LEVEL, config.FILE_LOG_LEVEL = False, 50, 50
    config.DATA_DIR, config.LOG_FILE = folder, f"{folder}/log"
    config.SQLITE_PATH, config.SESSION_DB_PATH = f"{folder}/pgadmin4.db", f"{folder}/sessions"
    config.STORAGE_DIR, config.AZURE_CREDENTIAL_CACHE_DIR = f"{folder}/storage", f"{folder}/azure"
    config.KERBEROS_CCACHE_DIR, config.WTF_CSRF_ENABLED = f"{folder}/kerberos", False
    logging.disable(logging.CRITICAL)
    os.environ["PGADMIN_INT_KEY"] = "key"
    made = import_module("pgadmin").create_app("pgAdmin 4")
    made.config["WTF_CSRF_ENABLED"], made.PGADMIN_INT_KEY, made.PGADMIN_RUNTIME = False, "", False
    with made.app_context():
        made.run_before_app_start()
    print(f"pgAdmin {config.APP_VERSION}", flush=True)
    return made


class Browser:
    """What the browser requests."""

    def __init__(self, made: Any, address: str) -> None:
        self._client = made.test_client()
        parts = urlsplit(f"postgresql:{address}")
        self._get("/browser/")
        asked = {
            "name": "clinic", "host": parts.hostname, "port": parts.port, "db": parts.path[1:], "shared": False,
            "username": parts.username, "connection_params": [{"name": "options", "value": "-c sfumato.epsilon=1"}],
            "connect_now": False, "use_ssh_tunnel": 0,
        }  # fmt: skip
        self._server = self._post("/browser/server/obj/1/", asked)["node"]["_id"]
        self._password, self._database_name = parts.password, parts.path[1:]
        self._place, self._database, self._transaction = "", 0, 1_000_000
        self._tables: dict[str, int] = {}

    def _get(self, path: str, **more: Any) -> Any:
        return self._read(self._client.get(path, **more))

    def _post(self, path: str, document: Any) -> Any:
        return self._read(self._client.post(path, json=document))

    def _read(self, reply: Any) -> Any:
        if reply.status_code >= 400:
            raise RuntimeError(f"{reply.status_code}: {reply.get_data(as_text=True)[:600]}")
        return reply.get_json(silent=True)

    def connect(self) -> str:
        """Connect to the server, then to the database."""
        self._read(
            self._client.post(
                f"/browser/server/connect/1/{self._server}", data={"password": self._password, "save_password": "off"}
            )
        )
        found = self._get(f"/browser/database/nodes/1/{self._server}/")["data"]
        self._database = next(one["_id"] for one in found if one["label"] == self._database_name)
        self._post(f"/browser/database/connect/1/{self._server}/{self._database}", {})
        return str(len(found))

    def tables(self) -> list[str]:
        """Open the schema and its tables."""
        base = f"1/{self._server}/{self._database}"
        schemas = self._get(f"/browser/schema/nodes/{base}/")["data"]
        public = next(one["_id"] for one in schemas if one["label"] == "public")
        self._place = f"{base}/{public}"
        for kind in ("view", "sequence", "function", "type"):
            self._get(f"/browser/{kind}/nodes/{self._place}/")
        self._tables = {one["label"]: one["_id"] for one in self._get(f"/browser/table/nodes/{self._place}/")["data"]}
        return sorted(self._tables)

    def columns(self, table: str) -> list[str]:
        """Open the columns of a table."""
        place = f"{self._place}/{self._tables[table]}"
        return [one["label"] for one in self._get(f"/browser/column/nodes/{place}/")["data"]]

    def properties(self, table: str) -> str:
        """Open the properties of a table."""
        return str(self._get(f"/browser/table/obj/{self._place}/{self._tables[table]}")["name"])

    def definition(self, table: str) -> bool:
        """Open the SQL tab of a table."""
        return "CREATE TABLE" in str(self._get(f"/browser/table/sql/{self._place}/{self._tables[table]}"))

    def dashboard(self) -> int:
        """Open the dashboard of the database."""
        place = f"{self._server}/{self._database}"
        names = "session_stats,tps_stats,ti_stats,to_stats,bio_stats"
        return len(self._get(f"/dashboard/dashboard_stats/{place}", query_string={"chart_names": names}) or {})

    def view(self, table: str) -> int:
        """View the first 100 rows of a table."""
        self._transaction += 1
        place = f"{self._transaction}/2/table/1/{self._server}/{self._database}/{self._tables[table]}"
        self._post(f"/sqleditor/initialize/viewdata/{place}", {"filter_sql": None})
        self._get(f"/sqleditor/view_data/start/{self._transaction}")
        return self._polled()

    def ask(self, sql: str, **plan: Any) -> int:
        """Run a statement in the query tool."""
        self._transaction += 1
        place = f"{self._transaction}/1/{self._server}/{self._database}"
        self._post(f"/sqleditor/initialize/sqleditor/{place}", {"dbname": self._database_name})
        asked = {"sql": sql, "explain_plan": plan or None}
        self._post(f"/sqleditor/query_tool/start/{self._transaction}", asked)
        return self._polled()

    def _polled(self) -> int:
        for _ in range(200):
            found = self._get(f"/sqleditor/poll/{self._transaction}")["data"]
            if found["status"] == "Success":
                return len(found["result"])
            if found["status"] not in ("Busy", "NotInitialised"):
                raise RuntimeError(str(found.get("result"))[:600])
            time.sleep(0.05)
        raise RuntimeError("no result")


def main(address: str) -> bool:
    """Browse, view and ask; return whether every step worked."""
    worked = True
    with tempfile.TemporaryDirectory() as folder:
        made = application(folder)
        with made.app_context():
            browser = Browser(made, address)
            steps: dict[str, Callable[[], Any]] = {
                "connect": browser.connect,
                "tables": browser.tables,
                "columns": lambda: browser.columns("visits"),
                "properties": lambda: browser.properties("visits"),
                "SQL tab": lambda: browser.definition("visits"),
                "dashboard": browser.dashboard,
                "view a public table": lambda: browser.view("staff"),
                "query tool": lambda: browser.ask(BY_DEPT),
                "query tool, explain": lambda: browser.ask(f"EXPLAIN {BY_DEPT}"),
            }
            for name, step in steps.items():
                try:
                    print(f"{name}: {step()}", flush=True)
                except Exception as error:
                    worked = False
                    print(f"{name}: FAILED {type(error).__name__}: {str(error)[:700]}", flush=True)
    return worked


if __name__ == "__main__":
    made = main(sys.argv[1])
    sys.stdout.flush()
    os._exit(0 if made else 1)  # pgAdmin leaves threads behind
