"""Bugs of statements that were made cheaper: what they leave out changes a result."""

from tests.planted.bug import Bug, planned

_LISTS = "tests/engines/test_bucket_lists.py"
_REFRESH = "tests/engines/test_incremental_refresh.py"
_WEIGHTS = "tests/engines/test_row_weights.py"
_PAIRS = "tests/engines/test_matched_pairs.py"

SIZE2_BUGS: tuple[Bug, ...] = (
    planned(
        "values of few rows are taken for values that are always served",
        _PAIRS,
        (
            "engines/sql/matched_pairs.py",
            '"min(CASE WHEN room > before THEN room END) AS bar"',
            '"min(CASE WHEN room >= before THEN room END) AS bar"',
        ),
    ),
    planned(
        "rows are taken for owners where values are always served",
        _PAIRS,
        (
            "engines/sql/matched_pairs.py",
            'room = dialect.floor_divide("count(*)", f"CAST({max_rows} AS {dialect.bigint})")',
            'room = "count(*)"',
        ),
    ),
    planned(
        "every listed row of a person has the whole weight of the person",
        _LISTS,
        (
            "engines/sql/bucket_lists.py",
            "weights = np.array([one.weight // max(own, 1) for own in range(1 << bits)], dtype=np.int64)",
            "weights = np.array([one.weight for own in range(1 << bits)], dtype=np.int64)",
        ),
    ),
    planned(
        "every row of a person has the whole weight of the person where arrays are added up",
        _WEIGHTS,
        (
            "engines/sql/row_weights.py",
            "weights = _parts(weight, own)",
            "weights = _parts(weight, np.minimum(own, 1))",
        ),
    ),
    planned(
        "two people have one number after a refresh",
        _REFRESH,
        (
            "engines/sql/bounding/person_numbers.py",
            "CAST({int(most)} + {build.dialect.row_number([], [])}",
            "CAST({build.dialect.row_number([], [])}",
        ),
    ),
    planned(
        "people who had rows before are taken for new ones at a refresh",
        _REFRESH,
        ("engines/sql/staging.py", "f'b.{unit} = a.id'", "f'b.{unit} = a.id AND FALSE'"),
    ),
    planned(
        "rows of people to whom others arrived stay in the copy beside them",
        _REFRESH,
        (
            "engines/sql/bounded_copy.py",
            "build.new_files(table.name) and had_rows(build, table):",
            "not build.new_files(table.name):",
        ),
    ),
)
