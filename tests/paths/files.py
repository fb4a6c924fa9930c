"""Source files as other libraries write them: pandas and polars beside Arrow and Python's csv.

`python -m tests.paths.files 500` tries so many sources with all of them.
"""

import csv
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl

from sfumato.lab.audits.files import main
from sfumato.lab.generators.source_files import NAMES, WRITERS, Sheet, Writer, arrow_table, line_end


def write_pandas_csv(path: Path, sheet: Sheet, manner: int) -> None:
    """Write with pandas, as people do, with an explicit end of lines or its own."""
    frame = pd.DataFrame({name: pd.Series(sheet.texts(name), dtype="str") for name in NAMES})
    quoting: Any = (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)[manner % 3]
    frame.to_csv(path, index=False, quoting=quoting, lineterminator=line_end(manner))


def write_polars_csv(path: Path, sheet: Sheet, manner: int) -> None:
    """Write with polars, in each of its styles that quotes what must be."""
    frame = pl.DataFrame({name: pl.Series(name, sheet.texts(name), dtype=pl.String) for name in NAMES})
    styles: Any = ("necessary", "always", "non_numeric")
    frame.write_csv(path, quote_style=styles[manner % 3], line_terminator=("\n", "\r\n")[manner % 2])


def write_pandas_parquet(path: Path, sheet: Sheet, manner: int) -> None:
    """Write with pandas what it can hold; text that is not UTF-8 never gets into a frame, so Arrow writes that.

    Integers among which one is absent become doubles; truth values would, too, and no policy reads those as such.
    """
    table = arrow_table(sheet)
    try:
        frame = table.to_pandas(date_as_object=False)
        frame["flag"] = table["flag"].to_pandas(types_mapper=pd.ArrowDtype)
    except (ValueError, UnicodeDecodeError):  # far dates, too: pandas counts nanoseconds
        WRITERS["parquet"]["arrow"](path, sheet, manner)
        return
    frame.to_parquet(path, index=bool(manner % 2))


def write_polars_parquet(path: Path, sheet: Sheet, manner: int) -> None:
    """Write with polars what it can hold."""
    try:
        frame = pl.from_arrow(arrow_table(sheet))
    except (ValueError, UnicodeDecodeError, pl.exceptions.PolarsError):
        WRITERS["parquet"]["arrow"](path, sheet, manner)
        return
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(path, row_group_size=1 + manner % 5, compression=("zstd", "snappy")[manner % 2])


EVERYBODY: dict[str, dict[str, Writer]] = {
    "csv": {**WRITERS["csv"], "pandas": write_pandas_csv, "polars": write_polars_csv},
    "parquet": {**WRITERS["parquet"], "pandas": write_pandas_parquet, "polars": write_polars_parquet},
}
"""Every writer of every format."""

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], EVERYBODY))
