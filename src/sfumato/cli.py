"""The command line: the verbs, in the order in which people need them."""

import gc
import os
import sys

import click

from sfumato.commands.access import grant, list_grants, login, revoke
from sfumato.commands.accounts import budget, history, verify
from sfumato.commands.agents import mcp
from sfumato.commands.approvals import requests
from sfumato.commands.asking import ask, explain, rehearse, sql
from sfumato.commands.backups import backup, restore
from sfumato.commands.codes import codes
from sfumato.commands.dashboards import dashboard
from sfumato.commands.demo import demo
from sfumato.commands.extensions import attack, audit, stream, survey, synthesize
from sfumato.commands.init import init
from sfumato.commands.owner import check, refresh, tune
from sfumato.commands.refusing import Refusing
from sfumato.commands.reporting import record, report
from sfumato.commands.schema import schema
from sfumato.commands.serving import serve
from sfumato.commands.startup import start_quickly

VERBS = (
    *(demo, init, check, tune, refresh),
    *(ask, explain, sql, rehearse, dashboard),
    *(budget, history, requests, verify, report, record, backup, restore),
    *(grant, revoke, list_grants, login, serve, mcp),
    *(attack, audit, stream, survey, synthesize),
    *(schema, codes),
)


@click.group(cls=Refusing, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sfumato", message="sfumato %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Answers about many people that tell next to nothing about any one of them."""
    start_quickly(ctx.invoked_subcommand)
    ctx.call_on_close(gc.enable)
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    for channel in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(channel, "reconfigure"):
            channel.reconfigure(errors="replace")  # a terminal without Greek letters is no reason to fail


for verb in VERBS:
    main.add_command(verb)
