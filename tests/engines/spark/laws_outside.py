"""Values outside their bounds on Spark: conditions, groups, sums, and a refresh with new years."""

# ruff: noqa: S608  (SQL is what is tested here)

from pathlib import Path

import pytest
from tests.engines.outside_rows import EPSILON, FIRST, LAST, VALUES, YEARS, conditions, groups, policy, table
from tests.engines.spark_under_law import write_folder

import sfumato
from sfumato.opening import refreshed
from sfumato.policy.canonical import policy_hash
from sfumato.policy.reading import read_policy
from sfumato.terminal.outside_bounds import count_outside

GROUPS = "SELECT year, COUNT(*) AS n FROM visits GROUP BY year"


def test_outside_their_bounds_values_are_in_no_group_and_wider_bounds_include_them(tmp_path: Path) -> None:
    write_folder(tmp_path / "data", {"visits": table()})
    words = {**policy(), "source": f"spark:{tmp_path}/data", "ledger": f"sqlite:{tmp_path}/outside.ledger"}
    with sfumato.open(words) as database:
        asked = [one for name in VALUES for one in list(conditions(name))[::5]]
        counts = ", ".join(f"COUNT(*) FILTER (WHERE {test}) AS n{at}" for at, (test, _) in enumerate(asked))
        [row] = database.ask(f"SELECT {counts} FROM visits", epsilon=20_000).rows()
        assert {test: row[f"n{at}"] for at, (test, _) in enumerate(asked)} == dict(asked)
        release = database.ask(GROUPS, epsilon=EPSILON)
        assert {row["year"]: row["n"] for row in release.rows()} == groups("year")
        assert any(note.startswith("In no group: about 5 rows") for note in release.notes)
        [row] = database.ask("SELECT SUM(year) AS s FROM visits", epsilon=20_000).rows()
        assert row["s"] == pytest.approx(sum(min(max(year, FIRST), LAST) for year in YEARS if year), abs=5)
        assert {one.column.name: (one.below, one.above) for one in count_outside(database)} == dict.fromkeys(
            VALUES, (2, 3)
        )
    write_folder(tmp_path / "data", {"visits": table([*YEARS, 2018])})
    words["tables"]["visits"]["columns"]["year"]["bounds"] = [FIRST, 2018]
    with refreshed(words, confirm=policy_hash(read_policy(words))) as database:
        found = {row["year"]: row["n"] for row in database.ask(GROUPS, epsilon=EPSILON).rows()}
        assert found == {**groups("year"), 2017: 1, 2018: 3}
