"""A dashboard of daily counts, paid for once, that survives a restart: a stream over the database."""

import tempfile
from datetime import date
from pathlib import Path

import sfumato
from sfumato import streams

DAYS = 7
SQL = "SELECT dept, COUNT(*) AS visits FROM visits GROUP BY dept"


def write_day(folder: Path, day: int) -> None:
    """Write the visits of one day, as a hospital's system would overnight; a patient comes about once a week."""
    visits = range(260 if day == 0 else 180)
    lines = [f"{(day * 211 + number * 7) % 1500},{'er' if number % 3 else 'surgery'}\n" for number in visits]
    (folder / "data" / "visits.csv").write_text("patient,dept\n" + "".join(lines))


folder = Path(tempfile.mkdtemp())
(folder / "data").mkdir()
policy: dict[str, object] = {
    "source": f"csv:{folder / 'data'}",
    "ledger": f"sqlite:{folder / 'clinic.ledger'}",
    "budget": {"epsilon": 4, "delta": "1e-6"},
    "tables": {
        "visits": {
            "unit": "patient",
            "rows_per_unit": 1,  # on one day
            "columns": {"patient": {"type": "integer"}, "dept": {"type": "text", "values": ["er", "surgery"]}},
        }
    },
}
for day in range(DAYS):
    write_day(folder, day)
    with sfumato.open(policy) as database:  # every day a new process: the stream goes on from its file
        board = streams.publish(
            database, SQL, every="day", horizon=DAYS, start=date(2026, 6, 1), participations=3, epsilon=2
        )
        board.add()  # a new snapshot is its next period; nobody counts on more than three days
        if day == DAYS - 1:
            print(board)
            print(f"charged {len(database.history())} time")
        board.close()
