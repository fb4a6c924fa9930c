"""A small source with every loss that `check` counts, and the exact numbers: the same on every engine."""

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sfumato.engines.inspection import SourceReport

TABLES = {
    "visits": pa.table(
        {
            "patient_id": pa.array([1, 1, 1, None, 2, 3], pa.int64()),
            "visit": pa.array([10, 11, 11, 12, 13, 14], pa.int32()),
            "age": pa.array([30, 130, -1, 5, None, 50], pa.int32()),
            "cost": pa.array([Decimal("1.50"), Decimal("2.00"), Decimal("99.00"), None, Decimal("4.00"), Decimal(5)]),
            "score": pa.array([0.25, float("nan"), 1.5, 0.5, float("inf"), -0.5], pa.float64()),
            "day": pa.array([date(2024, 1, 1), date(2019, 1, 1), None, None, date(2031, 1, 1), date(2024, 2, 29)]),
            "dept": ["er", "icu", "xray", None, "er", "er"],
            "ward": ["a", "b", "z", "a", "a", None],
            "note": ["ab", "abcd", None, "abc", "äöüß", ""],
        }
    ),
    "bills": pa.table({"bill": [1, 2, 3, 4], "visit": pa.array([10, 10, 14, 99], pa.int32()), "sum": [5, 700, -2, 3]}),
    "sensors": pa.table({"heat": pa.array([1, 7, None, 30], pa.int64())}),
    "wards": pa.table({"ward": ["a", "b"]}),
}
POLICY: dict[str, Any] = {
    "budget": {"epsilon": 1, "delta": 0},
    "tables": {
        "visits": {
            "unit": "patient_id",
            "rows_per_unit": 2,
            "columns": {
                "patient_id": {"type": "integer"},
                "visit": {"type": "integer", "unique": True},
                "age": {"type": "integer", "bounds": [0, 100]},
                "cost": {"type": "decimal", "bounds": [0, 10], "step": "0.01"},
                "score": {"type": "decimal", "bounds": [0, 1], "step": "0.1"},
                "day": {"type": "date", "bounds": [date(2020, 1, 1), date(2029, 12, 31)]},
                "dept": {"type": "text", "values": ["er", "icu"]},
                "ward": {"type": "text", "values": "wards.ward"},
                "note": {"type": "text", "length": 3},
            },
        },
        "bills": {
            "unit": "visits.patient_id via visit = visit",
            "rows_per_unit": 1,
            "columns": {
                "bill": {"type": "integer"},
                "visit": {"type": "integer"},
                "sum": {"type": "integer", "bounds": [0, 100]},
            },
        },
        "sensors": {"unit": "rows", "columns": {"heat": {"type": "integer", "bounds": [0, 20]}}},
        "wards": {"public": True},
    },
}


def check_report(report: SourceReport | None) -> None:
    """Assert every number of the report about these tables."""
    assert report is not None
    rows = {
        table.table: (table.rows, table.people, table.rows_without_unit, table.units_over_bound, table.removed)
        for table in report.tables
    }
    assert rows == {"visits": (6, 3, 1, 1, 1), "bills": (4, 2, 1, 1, 1), "sensors": (4, 4, 0, 0, 0)}
    visits, bills, sensors = report.tables
    assert (visits.repeated, visits.shared_keys, bills.key_column) == (1, 0, "visits.visit")
    assert [(cap.rows, cap.units_over_bound, cap.removed) for cap in visits.caps] == [(1, 1, 2), (2, 1, 1), (5, 0, 0)]
    assert sensors.caps == ()
    lost = {
        column.column: (column.present, column.unreadable, column.below, column.above)
        for column in report.columns
        if column.unreadable or column.below or column.above
    }
    assert lost == {
        "age": (5, 0, 1, 1),
        "cost": (5, 0, 0, 1),
        "score": (6, 2, 1, 1),
        "day": (4, 0, 1, 1),
        "sum": (4, 0, 1, 1),
        "heat": (3, 0, 0, 1),
    }
    undeclared = {column.column: column.undeclared for column in report.columns if column.undeclared}
    assert undeclared == {"dept": 1, "ward": 1}
    assert {column.column: column.cut for column in report.columns if column.cut} == {"note": 2}
    sums = {column.column: (column.total, column.clipped, column.capped) for column in report.columns if column.total}
    assert sums == {
        "age": (211, 31, 43),
        "cost": (11_150, 8_900, 450),
        "score": (22, 10, 4),
        "sum": (707, 602, 52),
        "heat": (38, 10, 0),
    }
    assert not any(column.remedy for column in report.columns)
