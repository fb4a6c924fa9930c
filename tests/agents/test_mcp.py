"""An agent sees tables, prices and noisy answers through the library's own client, and stops at its budget."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.made_up_clinic import fresh_clinic
from tests.server.running import Running

import sfumato
from sfumato.agents.mcp_server import make_server
from sfumato.agents.tools import Tools, guarded
from sfumato.errors import BadParameter
from sfumato.policy.reading import read_policy
from sfumato.rehearsal.policy import REHEARSAL_NOTE
from sfumato.server.grants import Grants

BY_SEX = "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex"
TOOLS = {"tables", "explain", "ask", "budget", "history"}


async def _call(client: Client, name: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(name, dict(arguments))
    text = result.content[0].text  # type: ignore[union-attr]
    return {"error": text} if result.is_error else json.loads(text)


def _with(target: Any, session: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Client(target) as client:
            await session(client)

    asyncio.run(main())


async def _session(client: Client) -> None:
    """Run the session that every transport must support."""
    listed = (await client.list_tools()).tools
    assert {tool.name for tool in listed} == TOOLS
    assert {tool.name for tool in listed if not tool.annotations.read_only_hint} == {"ask"}  # type: ignore[union-attr]
    tables = await _call(client, "tables")
    assert {table["name"] for table in tables["tables"]} == {"visits", "patients", "departments"}
    quote = await _call(client, "explain", sql=BY_SEX, epsilon="0.25")
    assert quote["loss"]["epsilon"] == "1/4"
    assert quote["margins"]["n"] > 0
    answer = await _call(client, "ask", sql=BY_SEX, epsilon="0.25")
    assert {row["sex"] for row in answer["rows"]} == {"female", "male"}
    for row, interval in zip(answer["rows"], answer["intervals"], strict=True):
        assert interval["n"][0] <= row["n"] <= interval["n"][1]
    assert answer["left"] == "ε = 0.75 of 1"
    assert (await _call(client, "ask", sql=BY_SEX, epsilon="0.25"))["rows"] == answer["rows"]
    assert (await _call(client, "budget"))["left"] == "ε = 0.75 of 1"
    entries = (await _call(client, "history"))["entries"]
    assert [entry["sql"] for entry in entries] == [BY_SEX]


def test_a_session_in_the_same_process(tmp_path: Path) -> None:
    with sfumato.open(fresh_clinic(tmp_path)) as owner, owner.as_analyst("research") as database:
        owner.ask("SELECT COUNT(*) AS everybody FROM visits", epsilon="0.5")  # the agent sees nothing of it
        _with(make_server(Tools(database), "clinic"), _session)


def test_a_session_over_stdio(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    words = ["-m", "sfumato", "mcp", str(policy), "--analyst", "research"]
    _with(StdioServerParameters(command=sys.executable, args=words, env=_environment()), _session)


def test_a_session_over_stdio_with_a_server_and_a_token(tmp_path: Path) -> None:
    with Running(fresh_clinic(tmp_path)) as server:
        environment = _environment() | {"SFUMATO_TOKEN": server.token()}
        words = ["-m", "sfumato", "mcp", server.url]
        _with(StdioServerParameters(command=sys.executable, args=words, env=environment), _session)


def _environment() -> dict[str, str]:
    return dict(os.environ)


def test_a_session_over_http_needs_the_token_of_the_analyst(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)
    grants = Grants(read_policy(policy), policy)
    token, owner = grants.grant("research").token, grants.grant("").token
    command = [sys.executable, "-m", "sfumato", "mcp", str(policy), "--analyst", "research", "--http-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", url)

        async def main() -> None:
            for wrong in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Bearer {owner}"}):
                async with httpx2.AsyncClient(headers=wrong) as http:
                    assert (await http.post(url, json={})).status_code == 401
            async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http:
                async with Client(streamable_http_client(url, http_client=http)) as client:
                    await _session(client)
                grants.revoke("research")
                assert (await http.post(url, json={})).status_code == 401

        asyncio.run(main())
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_an_agent_stops_at_the_cap_of_its_account(tmp_path: Path) -> None:
    policy = fresh_clinic(tmp_path)

    async def session(client: Client) -> None:
        assert "rows" in await _call(client, "ask", sql=BY_SEX, epsilon="0.9")
        refused = await _call(client, "ask", sql="SELECT COUNT(*) AS n FROM visits", epsilon="0.2")
        assert "budget_exhausted" in refused["error"]

    with sfumato.open(policy, analyst="research") as database:
        _with(make_server(Tools(database), "clinic"), session)
        assert database.budget().remaining.epsilon >= 0
    with sfumato.open(policy) as owner:
        assert owner.budget().spent.epsilon <= 1


@pytest.mark.parametrize("default", [None, "0.125"])
def test_there_is_no_price_without_a_default_or_an_argument(tmp_path: Path, default: str | None) -> None:
    async def session(client: Client) -> None:
        answer = await _call(client, "ask", sql=BY_SEX)
        if default is None:
            assert "Refused" in answer["error"]
        else:
            assert answer["cost"]["epsilon"] == "1/8"

    with sfumato.open(fresh_clinic(tmp_path), analyst="research") as database:
        _with(make_server(Tools(database, default), "clinic"), session)


def test_raw_rows_are_refused_in_words(tmp_path: Path) -> None:
    async def session(client: Client) -> None:
        refused = await _call(client, "ask", sql="SELECT patient_id FROM visits", epsilon="0.1")
        assert refused["error"].count("Refused (") == 1

    with sfumato.open(fresh_clinic(tmp_path), analyst="research") as database:
        _with(make_server(Tools(database), "clinic"), session)


def test_nothing_of_an_unexpected_failure_is_shown() -> None:
    def failing() -> dict[str, object]:
        raise RuntimeError("a raw value")

    with pytest.raises(ValueError, match="could not be answered") as caught:
        guarded(failing, ValueError)()
    assert "raw value" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_the_owners_account_is_no_agent(tmp_path: Path) -> None:
    with sfumato.open(fresh_clinic(tmp_path), rehearsal=True) as database, pytest.raises(BadParameter):
        Tools(database)


def test_an_agent_can_rehearse(tmp_path: Path) -> None:
    async def session(client: Client) -> None:
        assert (await _call(client, "ask", sql=BY_SEX, epsilon="0.1"))["notes"][0] == REHEARSAL_NOTE

    with sfumato.open(fresh_clinic(tmp_path), analyst="research", rehearsal=True) as database:
        _with(make_server(Tools(database), "clinic"), session)
