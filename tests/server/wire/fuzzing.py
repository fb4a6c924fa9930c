"""Malformed frames by the thousand: `python -m tests.server.wire.fuzzing --frames 100000`.

Each connection is let in, then sent frames that a generator with a fixed seed has bent: cut, stretched, with other
kinds, lengths and bytes, in any order. Whatever comes back is the protocol's; the next client is served; nothing is
charged, nothing is printed, and the process stays as large as it was.
"""

import argparse
import random
import struct
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.server.wire.served import (
    FLUSH,
    SYNC,
    Bare,
    Said,
    Served,
    bind,
    describe,
    execute,
    message,
    parse,
    served,
    start_up,
    text,
)

SEED = 20_240_613
KNOWN = frozenset(b"123CDEGHIKNRSTVWZAdcfnstvZ")
TEXTS = [
    "SELECT 1",
    "SELECT COUNT(*) FROM visits",
    "SELECT * FROM staff WHERE id = $1",
    "SELECT relname FROM pg_class WHERE oid = $1",
    "SET sfumato.intervals = on",
    "SHOW ALL",
    "BEGIN",
    "ROLLBACK",
    "EXPLAIN SELECT COUNT(*) FROM visits",
    "SELECT '",
    "",
    ";;",
    "SELECT $1::int[], ARRAY(SELECT 1)",
    "\x01\x02",
    "(" * 300,
    "SELECT " + "1," * 2000,
    "SELECT pg_backend_pid(), $1::text LIKE $2::text",
    "SELECT pg_backend_pid(), '" + "a" * 9000 + "' LIKE '%" + "a" * 9000 + "_b%'",
    "SELECT pg_backend_pid(), btrim('" + "a" * 5000 + "', '" + "".join(map(chr, range(0x4E00, 0x4E00 + 5000))) + "')",
    "EXECUTE s ((SELECT count(*) FROM unnest(ARRAY[1, 2]) a, unnest(ARRAY[1, 2]) b))",
    "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a + b < 0",
    "SELECT 'a'::text * 1000000000, mod('%1000000000d'::text, 5), pg_backend_pid()",
    "SELECT " + "c.*, " * 48 + "1 FROM pg_class c",
    "SELECT " + "*, " * 5000 + "* FROM pg_class",
    "SELECT g, 'some text' || g FROM generate_series(1, 5000) AS t(g)",
    "DECLARE c CURSOR WITH HOLD FOR SELECT g FROM generate_series(1, 5000) AS t(g)",
    "DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT * FROM staff WHERE id < $1",
    'declare "SQL_CUR1" cursor with hold for SELECT COUNT(*) FROM visits;fetch 2048 in "SQL_CUR1"',
    "BEGIN; DECLARE c BINARY CURSOR FOR SELECT * FROM staff; FETCH ALL c; MOVE BACKWARD 3 IN c; FETCH RELATIVE -1 c",
    "FETCH -2147483648 FROM c; FETCH ABSOLUTE 9223372036854775807 c; MOVE ALL c",
    "SAVEPOINT s; CLOSE c; ROLLBACK TO s; CLOSE ALL",
    "COPY (SELECT * FROM staff) TO STDOUT WITH (FORMAT csv, HEADER, QUOTE '\"', FORCE_QUOTE *)",
    "COPY (SELECT g FROM generate_series(1, 5000) AS t(g)) TO STDOUT (FORMAT binary)",
    "COPY (SELECT COUNT(*) FROM visits) TO STDOUT; COPY staff (name, id) TO STDOUT; COPY staff FROM STDIN",
    "COPY (" * 100,
]


@dataclass
class Count:
    """What a run did."""

    frames: int = 0
    connections: int = 0
    answers: int = 0


def resident() -> int:
    """Return the memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def a_frame(dice: random.Random) -> bytes:
    """Return a frame with something wrong in it; one in twenty is no frame at all."""
    sql = dice.choice(TEXTS)
    whole = dice.choice(
        [
            message(b"Q", text(sql)),
            parse(sql, dice.choice(["", "s", "t"]), (dice.choice([0, 20, 25, 1700, 9999]),) * dice.randrange(3)),
            bind((b"1",) * dice.randrange(3), dice.choice(["", "p"]), dice.choice(["", "s"]), (dice.randrange(3),)),
            describe(dice.choice([b"S", b"P", b"X"]), dice.choice(["", "s", "p"])),
            execute(dice.choice(["", "p"]), dice.choice([0, 1, -1, 2**31 - 1])),
            message(b"C", dice.choice([b"S", b"P"]) + text("s")),
            SYNC,
            FLUSH,
            message(b"F", dice.randbytes(10)),
            message(b"d", dice.randbytes(20)),
        ]
    )  # fmt: skip
    bent = bytearray(whole)
    if dice.random() < 0.05:
        return unframed(bent, dice)
    if len(bent) > 5:
        at = dice.randrange(5, len(bent))
        match dice.randrange(4):
            case 0:
                bent[at] = dice.randrange(256)
            case 1:
                bent[at:] = dice.randbytes(len(bent) - at)
            case 2:
                bent = bent[:at]
            case 3:
                bent += dice.randbytes(1 + dice.randrange(30))
    else:
        bent += dice.randbytes(1 + dice.randrange(4))
    return bytes(bent[:1] + struct.pack(">I", len(bent) - 1) + bent[5:])


def unframed(bent: bytearray, dice: random.Random) -> bytes:
    """Return a frame whose kind, length or end is wrong, so that what follows it is read askew."""
    match dice.randrange(3):
        case 0:
            bent[dice.randrange(5)] = dice.randrange(256)
        case 1:
            bent = bent[: 1 + dice.randrange(len(bent))]
        case 2:
            bent[1:5] = struct.pack(">I", dice.choice([0, 3, 4, 5, 70, 1 << 20, (1 << 30) + 1, (1 << 32) - 1]))
    return bytes(bent)


def one_connection(server: Served, dice: random.Random, most: int) -> tuple[int, int]:
    """Send some frames over one connection; return how many, and how many messages came back."""
    frames = 1 + dice.randrange(most)
    with Bare(server, timeout=10) as client:
        try:
            if dice.random() < 0.1:
                first = bytearray(start_up(("user", "research"), ("database", "clinic")))
                first[dice.randrange(len(first))] = dice.randrange(256)
                client.send(bytes(first))
            else:
                client.start()
            client.send(*(a_frame(dice) + SYNC * dice.randrange(2) for _ in range(frames)))
            client.socket.shutdown(1)
        except (OSError, EOFError, Said):
            return frames, 0
        return frames, answers(client)


def answers(client: Bare) -> int:
    """Read whatever comes until the connection ends; it is the protocol, and tells nothing."""
    found = 0
    while True:
        try:
            kind, body = client.read()
        except (EOFError, OSError):
            return found
        found += 1
        assert kind[0] in KNOWN, kind
        assert b"Traceback" not in body
        assert b"/src/" not in body
        if kind == b"E":
            assert body.count(b"\x00") >= 4


def fuzz(server: Served, frames: int, seed: int = SEED, most: int = 40) -> Count:
    """Send so many frames, and look at the server after each hundred connections."""
    dice, count = random.Random(seed), Count()
    spent = server.spent()
    while count.frames < frames:
        sent, came = one_connection(server, dice, most)
        count.frames, count.answers, count.connections = (
            count.frames + sent,
            count.answers + came,
            count.connections + 1,
        )
        if count.connections % 100 == 0:
            with server.client() as client:
                assert client.rows("SELECT 1") == [("1",)]
    with server.client() as client:
        assert client.rows("SELECT COUNT(*) FROM staff") == [("9",)]
    assert server.spent() == spent
    return count


def main() -> None:
    """Fuzz a server of this process, and say what was seen."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--frames", type=int, default=100_000)
    reader.add_argument("--seed", type=int, default=SEED)
    asked = reader.parse_args()
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:
        fuzz(server, 2000, asked.seed + 1)
        before, begun = resident(), time.monotonic()
        count = fuzz(server, asked.frames, asked.seed)
        seconds, grown = time.monotonic() - begun, resident() - before
        print(f"{count.frames:,} frames over {count.connections:,} connections, {count.answers:,} messages back")
        print(f"{seconds:.0f} s; memory grew by {grown / 1e6:.1f} MB; nothing was charged")


if __name__ == "__main__":
    main()
