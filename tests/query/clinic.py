"""The tables that the tests of the parser ask about."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sfumato.query.declared import Admitted


@dataclass(frozen=True)
class ClinicTable:
    """A table of the test catalog."""

    columns: Mapping[str, str]
    public: bool = False
    unit: str | None = None
    values: Mapping[str, Admitted] = field(default_factory=dict)
    keys_to_unit: Mapping[str, str] = field(default_factory=dict)
    previewed: bool = False

    def declared(self, column: str) -> Admitted | None:
        """Return what a column can hold."""
        return self.values.get(column)


@dataclass(frozen=True)
class Clinic:
    """A catalog with two private tables and a public one."""

    tables: Mapping[str, ClinicTable] = field(
        default_factory=lambda: {
            "visits": ClinicTable(
                {
                    "patient_id": "integer",
                    "age": "integer",
                    "dept": "text",
                    "cost": "decimal",
                    "day": "date",
                    "seen": "timestamp",
                    "urgent": "boolean",
                    "Odd Name": "text",
                },
                unit="patient_id",
            ),
            "patients": ClinicTable(
                {"patient_id": "integer", "sex": "text", "born": "date", "ward": "text"}, unit="patient_id"
            ),
            "staff": ClinicTable({"id": "integer", "dept": "text", "name": "text", "salary": "decimal"}, public=True),
        }
    )


CLINIC = Clinic()
