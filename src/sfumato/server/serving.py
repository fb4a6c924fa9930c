"""Serving policies: both protocols in one process, from the first line printed to the last answer settled."""

import asyncio
import logging
import os
import shlex
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from sfumato.errors import BadParameter, Refusal
from sfumato.policy.policy import Policy
from sfumato.policy.server_settings import ServerSettings
from sfumato.server.addresses import LOCAL, bind_socket, is_loopback, port_in_use, url
from sfumato.server.audit_copies import AuditCopy, open_audit_copy
from sfumato.server.connections import Connections, ListeningSocket
from sfumato.server.console.approvals import APPROVAL_PAGES
from sfumato.server.console.dashboards import DASHBOARD_PAGES
from sfumato.server.console.pages import PAGES
from sfumato.server.datasets import (
    DatasetPaths,
    OpenDataset,
    ServedDataset,
    root_router,
    serve_datasets,
    shared_settings,
)
from sfumato.server.grants import Grants
from sfumato.server.http import RequestGuard, RequestLimits, make_app
from sfumato.server.limits import ServerLimits, limits_of, lowered_limits, raise_file_limit
from sfumato.server.link_root import dataset_path
from sfumato.server.memory import return_free_memory
from sfumato.server.origins import Origins, PublicUrl, read_public_url
from sfumato.server.protocol import protocol_over
from sfumato.server.proxies import TrustedProxies, read_proxies
from sfumato.server.reloading import Reload
from sfumato.server.tls import CertificateFiles, Tls
from sfumato.server.wire.serving import start

_SHUTDOWN_SECONDS = 1
"""Seconds that connections have to end after the last answer has settled."""

_USES_SECONDS = 20.0
"""Seconds between two records of when tokens were last used."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ListeningPlace:
    """Where a server listens, and with which certificate."""

    host: str = "127.0.0.1"
    http_port: int = 0
    pg_port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    public_url: str | None = None
    """The address under which a reverse proxy shows the console."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies whose X-Forwarded-For is believed."""
    audit_copies: tuple[str, ...] = ()
    """Where copies of the audit log go: `stdout`, `syslog` or `syslog:HOST:PORT`."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Two ports that are taken, and the certificate if there is one."""

    place: ListeningPlace
    http: socket.socket
    pg: socket.socket
    tls: CertificateFiles | None
    public: PublicUrl | None
    proxies: TrustedProxies
    audit_copies: tuple[AuditCopy, ...] = ()


@contextmanager
def open_sockets(place: ListeningPlace) -> Iterator[Listener]:
    """Take the ports and read the certificate. Settings that cannot work are refused before any data is opened."""
    tls, proxies = _tls(place), read_proxies(place.trusted_proxies)
    copies = tuple(open_audit_copy(target) for target in place.audit_copies)
    public = None if place.public_url is None else read_public_url(place.public_url)
    with _no_hangup(), bind_socket(place.host, place.http_port) as http, bind_socket(place.host, place.pg_port) as pg:
        yield Listener(place, http, pg, tls, public, proxies, copies)


def serve(opened: Sequence[OpenDataset], listener: Listener, say: Say, limits: ServerLimits | None = None) -> None:
    """Serve datasets to accounts with a grant, until the process is stopped."""
    settings = shared_settings([dataset.declared for dataset in opened])
    grants = {dataset.path: Grants(dataset.declared, dataset.path) for dataset in opened}
    for granted in grants.values():
        granted.ready()
    wanted, files = limits or limits_of(settings), raise_file_limit()
    within = wanted.within_files(files)
    if lowered := lowered_limits(wanted, within):
        listed = ", ".join(f"{name} = {value:,}" for name, value in lowered.items())
        say(f"This process may open {files:,} files, which lowers limits: {listed}.")
    connections = Connections(within, listener.proxies)
    with _silent():
        settled = asyncio.run(_run(opened, grants, settings, listener, connections, say))
    if not settled:
        os._exit(0)  # a question that does not end is charged; waiting for its thread would take for ever


async def _run(
    opened: Sequence[OpenDataset],
    grants: Mapping[Path, Grants],
    settings: ServerSettings,
    listener: Listener,
    connections: Connections,
    say: Say,
) -> bool:
    place, tls = listener.place, listener.tls
    datasets = serve_datasets(opened, grants, settings, tls, listener.audit_copies)
    ports = listener.http.getsockname()[1], listener.pg.getsockname()[1]
    app, guards = _application(datasets, listener, connections)
    reload = Reload(datasets, tls, say, lambda: _use_names(guards, listener))
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, reload.wanted.set)
    http_socket, pg_socket = (
        ListeningSocket.over(bound_socket, connections) for bound_socket in (listener.http, listener.pg)
    )
    http = _http(app, connections, tls)
    serving = asyncio.create_task(http.serve([http_socket]))
    gates = tuple(dataset.gate for dataset in datasets)
    try:
        wired = await start(
            gates, place.host, ports[1], lambda: tls.current if tls else None, None, connections, pg_socket
        )
    except OSError:
        wired = None
    if wired is None:
        raise port_in_use(place.host, ports[1])
    while not http.started and not serving.done():
        await asyncio.sleep(0.01)
    if any(dataset.database.rehearsal for dataset in opened):
        say("Rehearsal: answers come from synthetic rows, and nothing is charged to the real budget.")
    for line in lines([gate.policy for gate in gates], place, ports, tls.current if tls else None):
        say(line)
    tasks = [asyncio.create_task(_write_uses(granted)) for granted in grants.values()]
    tasks += [asyncio.create_task(reload.run()), asyncio.create_task(return_free_memory())]
    await stop.wait()
    for task in tasks:
        task.cancel()
    settled = all(await asyncio.gather(*(gate.stop() for gate in gates)))
    wired.close()
    http.should_exit = True
    await serving
    return settled


def _application(
    datasets: Sequence[ServedDataset], listener: Listener, connections: Connections
) -> tuple[ASGIApp, tuple[RequestGuard, ...]]:
    """Return what answers requests over HTTP, and the guards in it."""
    limits, origins, proxies = RequestLimits(connections), _origins(listener), listener.proxies
    pages = (*PAGES, *APPROVAL_PAGES, *DASHBOARD_PAGES)
    guards = {dataset.name: make_app(dataset.gate, origins, pages, limits, proxies) for dataset in datasets}
    if len(datasets) == 1:
        return guards[datasets[0].name], tuple(guards.values())
    root = RequestGuard(root_router(datasets), datasets[0].gate, origins, limits, proxies)
    return DatasetPaths(root, guards), (root, *guards.values())


def _origins(listener: Listener) -> Origins:
    tls = listener.tls.current if listener.tls else None
    port = listener.http.getsockname()[1]
    return Origins("https" if tls else "http", _names(listener.place, tls), port, listener.public)


def _use_names(guards: Sequence[RequestGuard], listener: Listener) -> None:
    for guard in guards:
        guard.origins = replace(
            guard.origins, names=_names(listener.place, listener.tls.current if listener.tls else None)
        )


async def _write_uses(grants: Grants) -> None:
    """Write down from time to time when tokens and sessions were last used, also at the end."""
    try:
        while True:
            await asyncio.sleep(_USES_SECONDS)
            with suppress(Refusal):  # the next time may succeed
                await asyncio.to_thread(grants.write_uses)
    finally:
        with suppress(Refusal):
            grants.write_uses()


class _Server(uvicorn.Server):
    """uvicorn without its own idea of signals: answers settle first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def _http(app: ASGIApp, connections: Connections, tls: CertificateFiles | None) -> _Server:
    config = uvicorn.Config(
        app,
        http=protocol_over(connections),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,  # uvicorn would believe everybody on this machine
        timeout_keep_alive=connections.limits.http_idle_seconds,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=connections.limits.header_bytes,
    )
    config.load()
    config.ssl = tls.http_context() if tls else None
    return _Server(config)


def _tls(place: ListeningPlace) -> CertificateFiles | None:
    if place.certificate is not None and place.key is not None:
        return CertificateFiles(place.certificate, place.key)
    if place.certificate is not None or place.key is not None:
        raise BadParameter(
            "A certificate and its key belong together.", "One of them is missing.", "Give --tls-cert and --tls-key."
        )
    if not is_loopback(place.host):
        raise BadParameter(
            f"{place.host} is reached from other machines, and there is no certificate.",
            "Tokens and answers would cross the network in clear.",
            "Give --tls-cert and --tls-key, or serve on 127.0.0.1.",
        )
    return None


def _names(place: ListeningPlace, tls: Tls | None) -> tuple[str, ...]:
    local = LOCAL if is_loopback(place.host) else ()
    return (*local, place.host.strip("[]").lower(), *(tls.names if tls else ()))


def lines(policies: Sequence[Policy], place: ListeningPlace, ports: tuple[int, int], tls: Tls | None) -> list[str]:
    """Return the lines to print: addresses, and lines to paste."""
    host = place.host
    if host in ("0.0.0.0", "::") and tls and tls.names:  # noqa: S104 - it was asked for, with a certificate
        host = tls.names[0]
    root = url("https" if tls else "http", host, ports[0])
    told = [root] if len(policies) > 1 else []
    for policy in policies:
        page = f"{root.rstrip('/')}{dataset_path(policy.name)}/" if len(policies) > 1 else root
        user = policy.analysts[0].name if policy.analysts else "NAME"
        address = url("postgresql", host, ports[1], user, policy.name)
        psql = f"psql:    PGOPTIONS='-c sfumato.epsilon=0.1' psql {shlex.quote(address)}"
        python = f"Python:  sfumato.connect({page!r}, token=TOKEN).ask(SQL, epsilon='0.1')"
        granted = f"sfumato grant POLICY {user}" if policy.analysts else "add [analysts.NAME] to the policy, then grant"
        told += [page, address, psql, python, f"access:  {granted}"]
    return [*told, "Stop it with Ctrl-C."]


@contextmanager
def _no_hangup() -> Iterator[None]:
    """Ignore SIGHUP until the server reads its files again on it: it would end the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def _silent() -> Iterator[None]:
    """Print nothing that libraries log: it may contain request data. Handlers of the data owner still receive it."""
    handler = logging.NullHandler()  # without any handler Python prints warnings to the standard error stream
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
