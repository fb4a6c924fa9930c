"""Clients against a real server: python -m tests.clients.matrix PYTHON [NODE_FOLDER].

PYTHON is an interpreter with any of polars, connectorx, adbc-driver-postgresql, ibis-framework[postgres],
dask[dataframe], sqlalchemy, psycopg[binary], psycopg2-binary, pyarrow, pyodbc (with Debian's odbc-postgresql), jupysql
and django. R with r-cran-dbplyr and r-cran-rpostgresql, Java with libpostgresql-jdbc-java, and a folder in which npm
has installed pg and postgres are used where they are. It prints what each client got, and what all of them cost.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from tests.server.wire.served import served

HERE = Path(__file__).parent
JDBC = Path("/usr/share/java/postgresql.jar")
SECONDS = 300


def programs(python: str, node_folder: str, address: str) -> dict[str, list[str]]:
    """Return the commands of the clients that are installed."""
    parts = urlsplit(f"postgresql:{address}")
    place = [str(parts.hostname), str(parts.port), str(parts.username), str(parts.password), parts.path[1:]]
    found = {"Python": [python, str(HERE / "data_frames.py"), address]}
    if shutil.which("Rscript"):
        found["R"] = ["Rscript", str(HERE / "dbplyr.R"), *place]
    if shutil.which("java") and JDBC.exists():
        found["Java"] = ["java", "-cp", str(JDBC), str(HERE / "Cursors.java"), *place]
    if shutil.which("node") and node_folder:
        program = Path(node_folder) / "drivers.mjs"  # it finds its packages beside it
        shutil.copyfile(HERE / "drivers.mjs", program)
        found["Node"] = ["node", str(program), *place]
    return found


def run(python: str, node_folder: str = "") -> int:
    """Run the clients, and return 1 if one of them failed or if they cost more than their two questions."""
    failed = False
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:
        for name, command in programs(python, node_folder, server.url).items():
            print(f"── {name}", flush=True)
            failed |= subprocess.run(command, timeout=SECONDS, check=False).returncode != 0
        print(f"cost: {server.spent():g}; two questions at 1 each")
        return int(failed or server.spent() > 2)


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:3]))
