"""Parameters as drivers send them: every type as text and in binary, alone and in an array."""

import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.adapt import PyFormat, Transformer
from tests.server.wire.served import SYNC, Served, bind, errors, execute, parse

from sfumato.server.wire import oids
from sfumato.server.wire.sqlstates import WireError, reported
from sfumato.server.wire.values import read_value

NOON = datetime(2024, 2, 29, 12, 30, 0, 250_000)
WEST = timezone(timedelta(hours=-5, minutes=-30))
ID = "9f2f6a3e-0d0d-4a39-9d2f-0b6a3e9f2f6a"
VALUES: dict[str, tuple[list[Any], list[object]]] = {
    "integers": ([1, -7, 2**31 - 1], [1, -7, 2**31 - 1]),
    "long integers": ([2**40, -(2**62)], [2**40, -(2**62)]),
    "texts": (["er", "it's", 'a "b" \\c', "", "NULL", "{x,y}"], ["er", "it's", 'a "b" \\c', "", "NULL", "{x,y}"]),
    "doubles": ([0.5, -1e10], [0.5, -1e10]),
    "decimals": ([Decimal("12.50"), Decimal("-0.001")], [Fraction("12.5"), Fraction("-0.001")]),
    "dates": ([date(1999, 12, 31)], [date(1999, 12, 31)]),
    "timestamps": ([NOON, datetime(1970, 1, 1)], [NOON, datetime(1970, 1, 1)]),
    "timestamps with a zone": (
        [NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=WEST)],
        [NOON, NOON + timedelta(hours=5, minutes=30)],
    ),
    "booleans": ([True, False], [True, False]),
    "UUIDs": ([UUID(ID)], [ID]),
}
"""What a driver is given, and what it means."""


def sent(value: object, form: PyFormat) -> tuple[bytes, int]:
    """Return the bytes and the type that psycopg sends."""
    transformer = Transformer()
    (data,) = transformer.dump_sequence([value], [form])
    assert data is not None
    assert transformer.types is not None
    return bytes(data), transformer.types[0]


@pytest.mark.parametrize("form", [PyFormat.TEXT, PyFormat.BINARY])
@pytest.mark.parametrize("kind", VALUES)
def test_every_value_is_read_as_it_was_meant_alone_and_in_an_array(kind: str, form: PyFormat) -> None:
    given, meant = VALUES[kind]
    for value, expected in zip(given, meant, strict=True):
        data, oid = sent(value, form)
        assert read_value(data, oid, form is PyFormat.BINARY, "$1") == expected
    data, oid = sent([*given, None], form)
    if oid:  # a list of texts has no type in the text format: the question tells it
        assert read_value(data, oid, form is PyFormat.BINARY, "$1") == [*meant, None]
    else:
        assert read_value(data, oids.ARRAYS[oids.TEXT], False, "$1") == [*meant, None]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2024-02-29 12:00:00+00", datetime(2024, 2, 29, 12)),
        ("2024-02-29T12:00:00Z", datetime(2024, 2, 29, 12)),
        ("2024-02-29 12:00:00.5 +02:00", datetime(2024, 2, 29, 10, 0, 0, 500_000)),
        ("2024-03-01 00:30+0200", datetime(2024, 2, 29, 22, 30)),
        ("2024-02-29 12:00:00", datetime(2024, 2, 29, 12)),
    ],
)
def test_a_time_with_a_zone_is_one_of_utc(text: str, meant: datetime) -> None:
    assert read_value(text.encode(), oids.TIMESTAMPTZ, False, "$1") == meant


@pytest.mark.parametrize(
    ("data", "oid", "binary"),
    [
        (b"infinity", oids.TIMESTAMPTZ, False),
        (struct.pack(">q", 2**63 - 1), oids.TIMESTAMPTZ, True),
        (b"0001-01-01 00:00:00+14", oids.TIMESTAMPTZ, False),
        (b"9999-12-31 23:00:00-05", oids.TIMESTAMPTZ, False),
        (b"2024-02-29 12:00:00 Europe/Berlin", oids.TIMESTAMPTZ, False),
        (b"12345678", oids.UUID, True),
        (b"no uuid", oids.UUID, False),
        (b"{2024-01-01,soon}", oids.ARRAYS[oids.DATE], False),
        (b"{{1,2},{3,4}}", oids.ARRAYS[oids.INT8], False),
        (struct.pack(">iiIii", 1, 0, oids.INT8, 2**31 - 1, 1), oids.ARRAYS[oids.INT8], True),
        (struct.pack(">iiIiiii", 2, 0, oids.INT8, 1, 1, 1, 1), oids.ARRAYS[oids.INT8], True),
        (struct.pack(">iiIiii", 1, 0, oids.INT8, 1, 1, 9), oids.ARRAYS[oids.INT8], True),
    ],
)
def test_bytes_that_are_no_value_are_refused(data: bytes, oid: int, binary: bool) -> None:
    with pytest.raises(WireError) as refused:
        read_value(data, oid, binary, "$1")
    assert reported(refused.value).sqlstate == ("22P03" if binary else "22P02")


def test_a_driver_compares_with_times_of_any_zone(server: Served) -> None:
    """The nine of staff began on the first nine days of a month; midnight in the west is later in UTC."""
    with psycopg.connect(server.dsn) as connection:
        (first,) = connection.execute("SELECT MIN(since) FROM staff").fetchone() or ()
        for binary in (False, True):
            midnight = datetime(first.year, first.month, first.day, tzinfo=WEST)
            sql = "SELECT COUNT(*) FROM staff WHERE CAST(since AS timestamp) < %b" if binary else ""
            sql = sql or "SELECT COUNT(*) FROM staff WHERE CAST(since AS timestamp) < %s"
            assert connection.execute(sql, (midnight,)).fetchone() == (1,)
            assert connection.execute(sql, (midnight.replace(tzinfo=UTC),)).fetchone() == (0,)


def test_a_uuid_is_compared_as_text_and_a_type_without_values_is_named(server: Served) -> None:
    with psycopg.connect(server.dsn) as connection:
        assert connection.execute("SELECT COUNT(*) FROM staff WHERE name <> %s", (UUID(ID),)).fetchone() == (9,)
    with server.client() as client:
        sent_frames = parse("SELECT id FROM staff WHERE id = $1", types=(oids.INET,)) + bind((b"1",)) + execute() + SYNC
        (said,) = errors(client.send(sent_frames).until(b"Z"))
        assert said["C"] == "0A000"
        assert "an array of these" in said["D"]
