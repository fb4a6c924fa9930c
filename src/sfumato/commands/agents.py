"""A dataset for language models: `mcp`."""

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.commands.opening import open_database, open_rehearsal
from sfumato.errors import BadParameter

if TYPE_CHECKING:
    from sfumato.database import Database

_TOKEN_VARIABLE = "SFUMATO_TOKEN"  # noqa: S105 - the name of a variable


@click.command()
@click.argument("policy", metavar="POLICY")
@click.option("--analyst", metavar="NAME", help="The analyst whose budget the agent spends.")
@click.option("--epsilon", help="Epsilon of a question that names no price.")
@click.option("--http-port", type=int, help="Serve over HTTP on this port of 127.0.0.1, instead of stdio.")
@click.option("--rehearsal", is_flag=True, help="Answer from synthetic rows.")
def mcp(policy: str, analyst: str | None, epsilon: str | None, http_port: int | None, rehearsal: bool) -> None:
    """Offer tools to a language model, within a budget.

    POLICY is a policy file, with --analyst, or the https address of a server, with the token in SFUMATO_TOKEN. The
    tools are tables, explain, ask, budget and history of the Model Context Protocol.
    """
    from sfumato.release.rendering.export import optional

    optional("mcp", "mcp")
    from sfumato.agents.mcp_server import make_server
    from sfumato.agents.tools import Tools

    if policy.startswith(("http://", "https://")):
        from sfumato.server.client import connect

        if analyst is not None or http_port is not None or rehearsal:
            raise BadParameter(
                "A server cannot be combined with --analyst, --http-port or --rehearsal.",
                "The token decides whose budget is spent, and only stdio is offered.",
                "Leave these options out.",
            )
        with connect(policy, token=os.environ.get(_TOKEN_VARIABLE, "")) as remote:
            make_server(Tools(remote, epsilon), "server").run()
        return
    if analyst is None:
        raise BadParameter(
            "No analyst was named.",
            "An agent spends the budget of one analyst, never that of the whole dataset.",
            "Add --analyst NAME, with an analyst of the policy.",
        )
    file = Path(policy)
    opened: AbstractContextManager[Database] = (
        open_rehearsal(file, analyst) if rehearsal else open_database(file, analyst)
    )
    with opened as database:
        server = make_server(Tools(database, epsilon), database.policy.name)
        if http_port is None:
            server.run()
        else:
            _serve_http(server, file, database.account, http_port)


def _serve_http(server: object, file: Path, account: str, port: int) -> None:
    import uvicorn

    from sfumato.agents.mcp_server import HTTP_PATH, http_app
    from sfumato.policy.reading import read_policy
    from sfumato.server.addresses import bind_socket
    from sfumato.server.grants import Grants

    grants = Grants(read_policy(file), file)
    grants.ready()
    host = "127.0.0.1"
    with bind_socket(host, port) as listening:
        listening.listen()  # who reads the address can connect: requests wait until the server takes them
        click.echo(f"http://{host}:{listening.getsockname()[1]}{HTTP_PATH}")
        config = uvicorn.Config(
            http_app(server, grants, account, host), log_config=None, access_log=False, server_header=False
        )
        uvicorn.Server(config).run([listening])
