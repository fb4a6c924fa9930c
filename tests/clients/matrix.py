"""Data-frame clients against a real server: python -m tests.clients.matrix PYTHON.

PYTHON is an interpreter with polars, connectorx, adbc-driver-postgresql, ibis-framework[postgres], dask[dataframe],
sqlalchemy, psycopg[binary], psycopg2-binary and pyarrow. It prints what each client got, and what all of them cost.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.server.wire.served import served


def run(python: str) -> int:
    """Run the clients, and return 1 if one of them failed or if they cost more than their two questions."""
    program = Path(__file__).with_name("data_frames.py")
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:
        done = subprocess.run([python, str(program), server.url], timeout=300, check=False)
        print(f"cost: {server.spent():g}; two questions at 1 each")
        return int(done.returncode != 0 or server.spent() > 2)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1]))
