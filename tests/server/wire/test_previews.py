"""First rows of a private table are refused, made up or left out; its columns are the same wherever a tool looks."""

from pathlib import Path

import pytest
from tests.server.wire.served import PRICE, SYNC, Bare, bind, columns, errors, execute, fields, parse, raised, served

EMPTY = (("options", "-c sfumato.epsilon=1 -c sfumato.preview=empty"),)
CATALOGUE = (
    "SELECT attname FROM pg_attribute WHERE attrelid = 'visits'::regclass AND attnum > 0 ORDER BY attnum",
    "SELECT column_name FROM information_schema.columns WHERE table_name = 'visits' ORDER BY ordinal_position",
)
PROBES = ("SELECT * FROM visits LIMIT 0", 'SELECT * FROM "visits" AS "q01" WHERE (0 = 1)')
PREVIEWS = ('SELECT * FROM "visits" LIMIT 1', "SELECT x.* FROM public.visits x LIMIT 200")


def named(client: Bare, sql: str) -> list[str]:
    """Return the names of the columns of an answer."""
    found = client.query(sql)
    raised(found)
    return [column[0] for kind, body in found if kind == b"T" for column in columns(body)]


@pytest.mark.parametrize("preview", ["refused", "synthetic"])
def test_a_table_has_the_same_columns_everywhere(tmp_path: Path, preview: str) -> None:
    def edit(policy: Path) -> None:
        policy.write_text(policy.read_text().replace("source =", f'preview = "{preview}"\nsource ='))

    expected = ["patient_id", "age", "dept", "cost", "day", *(["synthetic"] if preview == "synthetic" else [])]
    with (
        served(tmp_path, edit=edit) as server,
        server.client(pairs=PRICE) as plain,
        server.client(pairs=EMPTY) as emptying,
    ):
        for client in (plain, emptying):
            for listed in CATALOGUE:
                assert [name for (name,) in client.rows(listed)] == expected
            for probe in PROBES:
                assert named(client, probe) == expected
                assert client.rows(probe) == []
        for asked in PREVIEWS:
            assert named(emptying, asked) == expected
            assert emptying.rows(asked) == []
            if preview == "refused":
                assert plain.state(asked) == "42501"
            else:
                assert named(plain, asked) == expected
                assert {row[-1] for row in plain.rows(asked)} == {"t"}
        assert server.spent() == 0
        real = plain.rows("SELECT COUNT(*) FROM visits")
        assert plain.rows("SELECT COUNT(*) FROM (SELECT * FROM visits) AS t") == real
        if preview == "synthetic":  # the mark is a constant of the text: the same measurement
            assert plain.rows("SELECT COUNT(*) FROM visits WHERE NOT synthetic") == real
        assert server.spent() == 1


def test_whether_previews_are_empty_is_a_setting_of_the_session(tmp_path: Path) -> None:
    with served(tmp_path) as server, server.client() as client:
        assert "sfumato.preview = 'empty'" in errors(client.query(PREVIEWS[0]))[0]["M"]
        assert client.state("SET sfumato.preview = 'rows'") == "22023"
        raised(client.query("SET sfumato.preview = 'empty'"))
        assert client.rows(PREVIEWS[0]) == []
        assert [fields(body)["M"][:35] for kind, body in client.query(PREVIEWS[0]) if kind == b"N"] == [
            "The rows of this preview are left o"
        ]
        assert not [kind for kind, _ in client.query("SELECT * FROM visits LIMIT 0") if kind == b"N"]
        assert client.state("SELECT * FROM visits") == "42501"  # only first rows are a preview
        raised(client.query("RESET sfumato.preview"))
        assert client.state(PREVIEWS[0]) == "42501"


def test_a_prepared_preview_follows_the_setting_of_now(tmp_path: Path) -> None:
    with served(tmp_path) as server, server.client(pairs=PRICE) as client:
        raised(client.send(parse(PREVIEWS[0], "shown"), SYNC).until(b"Z"))
        for setting, states in (("policy", ["42501"]), ("empty", []), ("policy", ["42501"])):
            raised(client.query(f"SET sfumato.preview = '{setting}'"))
            found = client.send(bind(name="shown"), execute(), SYNC).until(b"Z")
            assert [said["C"] for said in errors(found)] == states
        assert server.spent() == 0
