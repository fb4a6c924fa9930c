"""Great Expectations over the wire protocol: run by the Python of `tests.clients.matrix` or `tests.clients.recording`.

Argument: an address without its scheme. It prints the version, then one line per expectation.
"""

import sys
from importlib import import_module
from importlib.metadata import version
from typing import Any


def main(address: str) -> bool:
    """Check a table of people and a public one; return whether every expectation could be computed."""
    library: Any = import_module("great_expectations")
    expect = import_module("great_expectations.expectations")
    print(f"Great Expectations {version('great_expectations')}", flush=True)
    context = library.get_context(mode="ephemeral")
    url = f"postgresql+psycopg2:{address}?options=-csfumato.epsilon%3D1"
    source = context.data_sources.add_postgres("clinic", connection_string=url)
    visits = [
        expect.ExpectTableRowCountToBeBetween(min_value=300, max_value=500),
        expect.ExpectColumnToExist(column="dept"),
        expect.ExpectColumnMeanToBeBetween(column="cost", min_value=0, max_value=100),
        expect.ExpectColumnMinToBeBetween(column="age", min_value=0, max_value=120),
        expect.ExpectColumnMaxToBeBetween(column="age", min_value=0, max_value=120),
        expect.ExpectColumnSumToBeBetween(column="cost", min_value=0, max_value=100_000),
        expect.ExpectColumnValuesToNotBeNull(column="dept", mostly=0.9),
        expect.ExpectColumnValuesToBeInSet(column="dept", value_set=["er", "icu", "surgery"], mostly=0.9),
        expect.ExpectColumnValuesToBeBetween(column="age", min_value=0, max_value=120, mostly=0.9),
    ]
    staff = [
        expect.ExpectTableRowCountToEqual(value=9),
        expect.ExpectColumnValuesToNotBeNull(column="name"),
        expect.ExpectColumnValuesToBeUnique(column="id"),
        expect.ExpectColumnValuesToBeInSet(column="dept", value_set=["er", "icu", "surgery"]),
    ]
    computed = True
    for table, expectations in (("visits", visits), ("staff", staff)):
        asset = source.add_table_asset(table, table_name=table, schema_name="public")
        batch = asset.add_batch_definition_whole_table("whole").get_batch()
        for expectation in expectations:
            found = batch.validate(expectation, result_format="BOOLEAN_ONLY")
            failed = (found.exception_info or {}).get("raised_exception", False) or any(
                isinstance(one, dict) and one.get("raised_exception") for one in (found.exception_info or {}).values()
            )
            computed &= not failed
            name = f"{table}, {expectation.expectation_type}"
            print(f"{name}: {f'FAILED {found.exception_info}'[:600] if failed else 'ok'}, success={found.success}")
    return computed


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1]) else 1)
