"""Opening a dataset to others: `serve`."""

from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import click

from sfumato.commands.opening import open_database, open_rehearsal
from sfumato.commands.options import File, policy_file
from sfumato.errors import BadParameter


@click.command()
@policy_file
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
    policy: Path,
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
    """Put a policy in front of people and tools.

    The console's address, one for psql and a Python line are printed; analysts come in by what `sfumato grant` gave
    them. SIGTERM or Ctrl-C lets running questions settle and ends it; SIGHUP changes nothing.
    """
    if not all(map(find_spec, ("starlette", "uvicorn", "jinja2", "prometheus_client"))):
        raise BadParameter(
            "The server is not installed.", "It is an optional extra.", "Run: pip install 'sfumato[server]'."
        )
    from sfumato.policy.reading import read_policy
    from sfumato.server import serving
    from sfumato.server.json_log import json_log

    ports = read_policy(policy).server
    place = serving.ListeningPlace(
        host,
        ports.http_port if http_port is None else http_port,
        ports.pg_port if pg_port is None else pg_port,
        tls_cert,
        tls_key,
        public_url,
        trusted_proxy,
        audit_copy,
    )
    opened = open_rehearsal(policy) if rehearsal else open_database(policy)
    log = json_log() if log_json else nullcontext()
    with log, serving.open_sockets(place) as listener, opened as database:
        serving.serve(policy, database, listener, click.echo)
