"""A refresh of a folder to which files were only added: Spark writes the copy that it would write of everything."""

from pathlib import Path
from typing import Any, ClassVar

import pyarrow.dataset as ds
from tests.engines.spark_under_law import LIMITS, spark
from tests.engines.test_incremental_refresh import ROWS, TABLES, Place

from sfumato.engines.engine import Progress
from sfumato.engines.snapshot_paths import places_of
from sfumato.engines.snapshots import identity_of, snapshot
from sfumato.engines.spark.registration import SparkCopying, rows_folder
from sfumato.engines.sql.names import NUMBER


class SparkPlace(Place):
    """A folder of Parquet files that Spark reads: few tables, because it takes its time for each."""

    tables: ClassVar = {name: TABLES[name] for name in ("visits", "votes", "depts")}

    def taken(self, progress: Progress, *, again: bool) -> dict[str, list[tuple[Any, ...]]]:
        policy = self.policy
        with snapshot(policy, SparkCopying(policy, LIMITS), progress, again=again) as taken:
            registered = taken.keep("")
        registered.use.close()
        found = {}
        for path in sorted(rows_folder(places_of(policy), identity_of(registered.path)).iterdir()):
            if path.is_dir():
                rows = ds.dataset(path, format="parquet").to_table()
                columns = [rows.column(name).to_pylist() for name in rows.column_names if name != NUMBER]
                found[path.name] = sorted(zip(*columns, strict=True), key=repr)
        return found


def test_bounding_those_again_to_whom_rows_arrived_is_bounding_everybody(tmp_path: Path) -> None:
    spark()
    place = SparkPlace(tmp_path / "here", "parquet", "spark")
    place.fill([*ROWS, (4, 9, 0.5, "er"), (None, 8, 1.0, "er")])
    place.refreshed()
    place.visits(
        1, [(1, 1, 1.0, "er"), (1, 5, 7.0, "icu"), (1, 6, 7.0, "icu"), (5, 7, 1.0, "lab"), (None, 1, 1.0, None)]
    )
    after = place.refreshed()
    assert place.read_again() == {"visits"}
    assert after == place.anew()
