"""Opening a dataset to others: `serve`."""

from contextlib import ExitStack, nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from sfumato.commands.opening import open_database, open_rehearsal
from sfumato.commands.options import File
from sfumato.errors import BadParameter


@click.command()
@click.argument("policies", type=File, nargs=-1, required=True, metavar="POLICY...")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address; any but a local one needs TLS.")
@click.option("--http-port", type=int, help="For HTTP and the console, 8000 by default; 0 chooses a free port.")
@click.option("--pg-port", type=int, help="For PostgreSQL's protocol, 5433 by default; 0 chooses a free port.")
@click.option("--tls-cert", type=File, metavar="FILE", help="The certificate chain, in PEM.")
@click.option("--tls-key", type=File, metavar="FILE", help="Its private key, in PEM.")
@click.option("--public-url", metavar="URL", help="The address under which a reverse proxy shows the console.")
@click.option(
    "--trusted-proxy",
    multiple=True,
    metavar="ADDRESS",
    help="A reverse proxy, or a network of them, whose X-Forwarded-For is trusted; may be repeated.",
)
@click.option(
    "--audit-copy",
    multiple=True,
    metavar="TARGET",
    help="Send audit lines to stdout, syslog or syslog:HOST:PORT as well; may be repeated.",
)
@click.option("--log-json", is_flag=True, help="Write operations as JSON lines to stderr.")
@click.option("--rehearsal", is_flag=True, help="Serve synthetic rows instead; the same tokens are accepted.")
def serve(
    policies: tuple[Path, ...],
    host: str,
    http_port: int | None,
    pg_port: int | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    public_url: str | None,
    trusted_proxy: tuple[str, ...],
    audit_copy: tuple[str, ...],
    log_json: bool,
    rehearsal: bool,
) -> None:
    """Put policies in front of people and tools.

    The console's address, one for psql and a Python line are printed; analysts come in by what `sfumato grant` gave
    them. Several policies, or a folder of them, are several datasets of one server. SIGTERM or Ctrl-C lets running
    questions settle and ends it; SIGHUP reads certificate and policies again.
    """
    if not all(map(find_spec, ("starlette", "uvicorn", "jinja2", "prometheus_client", "joserfc"))):
        raise BadParameter(
            "The server is not installed.", "It is an optional extra.", "Run: pip install 'sfumato[server]'."
        )
    import_module("sfumato.secure_files")  # it says on other systems why no data can be opened there
    from sfumato.policy.reading import read_policy
    from sfumato.server import serving
    from sfumato.server.datasets import OpenDataset, policy_files, shared_settings
    from sfumato.server.json_log import json_log
    from sfumato.server.memory import limit_free_memory

    limit_free_memory()
    declared = {path: read_policy(path) for path in policy_files(policies)}
    settings = shared_settings(list(declared.values()))
    place = serving.ListeningPlace(
        host,
        settings.http_port if http_port is None else http_port,
        settings.pg_port if pg_port is None else pg_port,
        tls_cert,
        tls_key,
        public_url or settings.public_url,
        trusted_proxy or settings.trusted_proxies,
        audit_copy,
    )
    log = json_log() if log_json else nullcontext()
    with log, serving.open_sockets(place) as listener, ExitStack() as opening:
        opened = []
        for path in declared:
            chosen = open_rehearsal(path) if rehearsal else open_database(path)
            database = opening.enter_context(chosen)
            opened.append(OpenDataset(path, read_policy(path) if rehearsal else database.policy, database))
        serving.serve(opened, listener, click.echo)
