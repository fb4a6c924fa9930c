"""The schemes that the embedded engine reads: files, databases in a file, and frames."""

from functools import partial

from sfumato.policy.schemes import SourceScheme

_BACKEND = "sfumato.engines.duckdb.opening:BACKEND"
_file = partial(
    SourceScheme, backend=_BACKEND, status="sfumato.engines.duckdb.file_status:files_changed", can_draft=True
)

PARQUET = _file("parquet", mistaken=("pq",), suffixes=(".parquet",))
CSV = _file("csv", mistaken=("tsv",), suffixes=(".csv",), reads_csv=True)
FILES = _file("files", reads_csv=True)
DUCKDB = _file("duckdb", suffixes=(".duckdb",))
SQLITE = _file("sqlite", "clinic.db", mistaken=("sqlite3",), suffixes=(".sqlite", ".sqlite3"))
FRAMES = SourceScheme("frames", is_written=False, tells_changes=False, backend=_BACKEND)
