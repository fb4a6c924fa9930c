"""The datasets of one server: each has its own policy, ledger, grants, audit log, path and database name.

Limits, threads and ports are shared. Where a server has one dataset, its pages lie at the root. Where it has several,
they lie below /d/NAME, and the root lets people choose.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from sfumato.database import Database
from sfumato.errors import BadParameter, NotGranted
from sfumato.policy.policy import Policy, fold_name
from sfumato.policy.server_settings import DEFAULT_SERVER, ServerSettings
from sfumato.server.audit import Audit, audit_path
from sfumato.server.audit_copies import AuditCopy
from sfumato.server.console.pages import STATIC_PAGE, for_people, html_reply
from sfumato.server.console.templates import render
from sfumato.server.gate import GateLimits, Gateway
from sfumato.server.grants import Grants
from sfumato.server.identity import IdentityProvider
from sfumato.server.link_root import DATASETS_PATH, dataset_path
from sfumato.server.metrics import MEDIA_TYPE, opens_metrics, render_combined
from sfumato.server.readiness import Readiness
from sfumato.server.replies import json_reply
from sfumato.server.requests import bearer_token
from sfumato.server.routes import health
from sfumato.server.scheduling import GateThreads
from sfumato.server.tls import CertificateFiles
from sfumato.server.watch import PolicyWatch


@dataclass(frozen=True, slots=True)
class OpenDataset:
    """A policy file and the dataset that was opened with it."""

    path: Path
    declared: Policy
    """What the file says; a rehearsal answers under a policy of its own."""
    database: Database


@dataclass(frozen=True, slots=True)
class ServedDataset:
    """One dataset of a server."""

    path: Path
    gate: Gateway
    watch: PolicyWatch

    @property
    def name(self) -> str:
        """Name of the dataset."""
        return self.gate.policy.name


def policy_files(named: Sequence[Path]) -> tuple[Path, ...]:
    """Return the policy files that were named; a folder stands for the files in it that end with .toml."""
    files: list[Path] = []
    for path in named:
        if not path.is_dir():
            files.append(path)
            continue
        found = sorted(path.glob("*.toml"))
        if not found:
            raise BadParameter(
                "There is no policy in this folder.", "A policy is a file that ends with .toml.", "Name another folder."
            )
        files += found
    return tuple(files)


def shared_settings(policies: Sequence[Policy]) -> ServerSettings:
    """Return the settings of a server for these policies; refuse two datasets of one name, and two sets of settings."""
    names: dict[str, str] = {}
    for policy in policies:
        if fold_name(policy.name) in names:
            raise BadParameter(
                f"Two datasets are called '{policy.name}'.",
                "Paths and database names tell the datasets of a server apart.",
                "Give each policy a `name` of its own.",
            )
        names[fold_name(policy.name)] = policy.name
    settings = [(policy.name, policy.server) for policy in policies if policy.server != DEFAULT_SERVER]
    for name, server in settings[1:]:
        if server != settings[0][1]:
            raise BadParameter(
                f"'{settings[0][0]}' and '{name}' have different settings in [server].",
                "The datasets of one server share its ports and limits.",
                "Write [server] into one of the policies, or the same into all.",
            )
    return settings[0][1] if settings else DEFAULT_SERVER


def gate_limits(server: ServerSettings) -> GateLimits:
    """Return the limits of the gateways of a server."""
    return GateLimits(
        questions=server.questions,
        waiting=server.waiting_per_account,
        seconds=server.answer_seconds,
        requests_per_second=server.requests_per_second,
    )


def serve_datasets(
    opened: Sequence[OpenDataset],
    grants: Mapping[Path, Grants],
    settings: ServerSettings,
    tls: CertificateFiles | None,
    copies: tuple[AuditCopy, ...] = (),
) -> tuple[ServedDataset, ...]:
    """Return a gateway for each dataset; they share their threads."""
    limits = gate_limits(settings)
    threads = limits.make_threads()
    return tuple(
        _serve_dataset(dataset, grants[dataset.path], limits, threads, tls, copies, len(opened) > 1)
        for dataset in opened
    )


def _serve_dataset(
    dataset: OpenDataset,
    grants: Grants,
    limits: GateLimits,
    threads: GateThreads,
    tls: CertificateFiles | None,
    copies: tuple[AuditCopy, ...],
    is_one_of_several: bool,
) -> ServedDataset:
    log = audit_path(dataset.database.policy, dataset.path)
    watch = PolicyWatch(dataset.path, dataset.declared)
    gate = Gateway(dataset.database, grants, Audit(log, copies=copies), watch, limits, threads=threads)
    gate.dataset = dataset.database.policy.name if is_one_of_several else ""
    gate.identity = identity_provider(dataset.declared, grants)
    gate.readiness = Readiness(lambda: gate.owner, log.parent, watch, tls)
    return ServedDataset(dataset.path, gate, watch)


def identity_provider(policy: Policy, grants: Grants) -> IdentityProvider | None:
    """Return the provider that a policy names, with log-ins that all servers over the same grants can finish."""
    if policy.identity is None:
        return None
    return IdentityProvider(policy.identity, secret=grants.login_secret, once=grants.use_once)


class DatasetPaths:
    """Sends requests below /d/NAME to the dataset of that name, and all others to the root."""

    def __init__(self, root: ASGIApp, datasets: Mapping[str, ASGIApp]) -> None:
        self._root = root
        self._datasets = dict(datasets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = str(scope.get("path", ""))
        if path.startswith(DATASETS_PATH):
            for name, app in self._datasets.items():
                prefix = DATASETS_PATH + name
                if path == prefix or path.startswith(f"{prefix}/"):
                    inner = {**scope, "path": path[len(prefix) :] or "/", "root_path": dataset_path(name)}
                    await app(inner, receive, send)
                    return
        await self._root(scope, receive, send)


def root_router(datasets: Sequence[ServedDataset]) -> Router:
    """Return the pages at the root of a server with several datasets."""

    async def choose(_request: Request) -> Response:
        """List the datasets."""
        listed = [(dataset.name, f"{dataset_path(dataset.name)}/") for dataset in datasets]
        return html_reply(render("datasets.html", dataset="", datasets=listed))

    async def ready(_request: Request) -> Response:
        """Tell whether every dataset can answer questions now: 200 or 503, and which checks hold."""
        found = await asyncio.gather(*(dataset.gate.check_ready() for dataset in datasets))
        by_name = {dataset.name: checks for dataset, checks in zip(datasets, found, strict=True)}
        checks = {
            name: all(dataset_checks.get(name, True) for dataset_checks in found) for facts in found for name in facts
        }
        holds = all(checks.values())
        document = {"status": "ready" if holds else "not ready", "checks": checks, "datasets": by_name}
        return json_reply(document, 200 if holds else 503)

    async def metrics(request: Request) -> Response:
        """Give the metrics of all datasets to Prometheus, for the token of the environment: owners have their own."""
        if not opens_metrics(bearer_token(request)):
            raise NotGranted()
        load = request.scope["load"]
        for dataset in datasets:
            await dataset.gate.render_metrics(load)
        found = {dataset.name: dataset.gate.audit.metrics for dataset in datasets}
        return Response(render_combined(found), media_type=MEDIA_TYPE)

    return Router(
        [
            Route("/", for_people(choose)),
            Route("/health", health),
            Route("/ready", ready),
            Route("/metrics", metrics),
            STATIC_PAGE,
        ],
        redirect_slashes=False,
    )
