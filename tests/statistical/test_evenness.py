"""Where a person may be in few groups only, every group has the same chance to be one of them."""

from datetime import date
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.paths.test_sensitivity import Opened

from sfumato.engines.duckdb.engine import DuckDB
from sfumato.engines.duckdb.registration import register
from sfumato.engines.engine import Limits
from sfumato.policy.reading import read_policy

PEOPLE, MONTHS, KEPT = 3_000, 12, 3
RARE = 48.87
"""A chi-squared variable with 11 degrees of freedom is greater with probability 1e-6. The salt is fixed, so that each
test passes always or never; for a random salt, an even choice would fail one of the five with probability 5e-6."""


class Months(Opened):
    """Everybody has one row in each of twelve months, under names of several kinds."""

    def __init__(self, folder: Path) -> None:
        (folder / "data").mkdir(parents=True)
        cells = list(product(range(PEOPLE), range(MONTHS)))
        columns = {
            "who": [person for person, _ in cells],
            "day": [date(2024, month + 1, 15) for _, month in cells],
            "number": [month for _, month in cells],
            "name": [f"month {month:02}" for _, month in cells],
            "word": [f"month {month:02}" for _, month in cells],
        }
        pq.write_table(pa.table(columns), folder / "data" / "rows.parquet")
        salt = folder / "months.ledger.copy.salt"
        salt.touch(mode=0o600)
        salt.write_bytes(bytes(range(32)))
        declared = {
            "who": {"type": "integer"},
            "day": {"type": "date", "bounds": [date(2024, 1, 1), date(2024, 12, 31)]},
            "number": {"type": "integer", "bounds": [0, 11]},
            "name": {"type": "text", "values": [f"month {month:02}" for month in range(MONTHS)]},
            "word": {"type": "text"},
        }
        table = {"unit": "who", "rows_per_unit": MONTHS, "groups_per_unit": KEPT, "columns": declared}
        self.policy = read_policy(
            {
                "name": "months",
                "source": f"parquet:{folder}/data",
                "ledger": f"sqlite:{folder}/months.ledger",
                "budget": {"epsilon": 10, "delta": 1e-6},
                "tables": {"rows": table},
            }
        )
        self.engine = DuckDB(self.policy, register(self.policy, lambda phase, table: None), Limits(threads=2))


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> Months:
    return Months(tmp_path_factory.mktemp("months"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT date_trunc('month', day) AS k, COUNT(*) FROM rows GROUP BY k",
        "SELECT number AS k, COUNT(*) FROM rows GROUP BY k",
        "SELECT name AS k, COUNT(*) FROM rows GROUP BY k",
        "SELECT word AS k, COUNT(*) FROM rows GROUP BY k",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 3) number AS k, COUNT(*) FROM rows GROUP BY k",
    ],
)
def test_every_month_is_kept_as_often(months: Months, sql: str) -> None:
    ((plan, found),) = months.aggregates(sql)
    kept = [int(n) for n in found.columns[plan.measured[0].name]]
    assert (len(kept), sum(kept)) == (MONTHS, PEOPLE * KEPT)
    share = KEPT / MONTHS
    # Everybody keeps exactly three of twelve: the counts have 11 degrees of freedom, and so much is their variance.
    distance = sum((n - PEOPLE * share) ** 2 for n in kept) / (PEOPLE * share * (1 - share)) * (MONTHS - 1) / MONTHS
    assert distance < RARE
