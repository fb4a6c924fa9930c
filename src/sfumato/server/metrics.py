"""Metrics of a server in Prometheus' text format: counts, times and budgets, without any value of the data.

The seconds of a request are those that its client waits, after padding. Labels are names of the policy and codes: no
client can make up a label.
"""

import hmac
import os
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from sfumato.errors import REFUSALS
from sfumato.ledger.ledger import Budget

TOKEN_VARIABLE = "SFUMATO_METRICS_TOKEN"  # noqa: S105  (the name of a variable)
"""The environment variable with a token that opens /metrics and nothing else."""
MEDIA_TYPE = CONTENT_TYPE_LATEST
_OUTCOMES = {"ok", "cancelled", "disconnected", *(kind.code for kind in REFUSALS)}
_VERBS = {"ask", "ask_all", "explain", "budget", "history", "release", "verify", "accounts", "snapshot"}
_MIN_TOKEN_CHARS = 16


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "sfumato_requests",
            "Requests by interface, operation and outcome code.",
            ["channel", "verb", "outcome"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "sfumato_request_seconds",
            "Seconds that a client waits, after padding.",
            ["verb"],
            registry=self._registry,
        )
        self._copy_failures = Counter(
            "sfumato_audit_copy_failures", "Audit lines that could not be sent elsewhere.", registry=self._registry
        )
        self._epsilon = Gauge(
            "sfumato_budget_epsilon", "Epsilon of each account.", ["account", "state"], registry=self._registry
        )
        self._ready = Gauge("sfumato_ready", "1 where a check holds, else 0.", ["check"], registry=self._registry)
        self._load = Gauge("sfumato_load", "Connections and requests in progress.", ["kind"], registry=self._registry)
        ProcessCollector(registry=self._registry)

    def count(self, channel: str, account: str | None, verb: str, outcome: str) -> None:
        """Count a request. The path that a client without a grant names is no label."""
        known = "anonymous" if account is None else verb if verb in _VERBS else "page"
        told = outcome if outcome in _OUTCOMES else "failed" if outcome.startswith("failed") else "other"
        self._requests.labels(channel, known, told).inc()

    def observe(self, verb: str, seconds: float) -> None:
        """Note how long a request took."""
        self._seconds.labels(verb if verb in _VERBS else "page").observe(seconds)

    def count_copy_failure(self) -> None:
        """Count an audit line that could not be sent elsewhere."""
        self._copy_failures.inc()

    def families(self) -> Iterable[Metric]:
        """Return what was last rendered, by family."""
        return self._registry.collect()

    def render(self, budgets: dict[str, Budget], checks: dict[str, bool], load: dict[str, int]) -> bytes:
        """Return the page, with the numbers as of now."""
        for name, budget in budgets.items():
            for state, loss in (("total", budget.total), ("spent", budget.spent), ("remaining", budget.remaining)):
                self._epsilon.labels(name or "dataset", state).set(float(loss.epsilon))
        for name, holds in checks.items():
            self._ready.labels(name).set(holds)
        for name, number in load.items():
            self._load.labels(name).set(number)
        return generate_latest(self._registry)


def render_combined(metrics: Mapping[str, Metrics]) -> bytes:
    """Return one page for several datasets: each sample says which dataset it is of; the process has one set."""
    return generate_latest(_Combined(metrics))


class _Combined:
    """The families of several registries as one, with the label `dataset`."""

    def __init__(self, metrics: Mapping[str, Metrics]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return each family once."""
        families: dict[str, Metric] = {}
        for dataset, metrics in self._metrics.items():
            for found in metrics.families():
                is_new = found.name not in families
                family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
                of_process = found.name.startswith("process_")
                if of_process and not is_new:
                    continue
                more = {} if of_process else {"dataset": dataset}
                family.samples += [sample._replace(labels={**more, **sample.labels}) for sample in found.samples]
        return families.values()


def opens_metrics(token: str) -> bool:
    """Tell whether this is the token of the environment; a short one opens nothing."""
    expected = os.environ.get(TOKEN_VARIABLE, "")
    if len(expected) < _MIN_TOKEN_CHARS:
        return False
    return hmac.compare_digest(expected.encode(), token.encode("utf-8", "surrogatepass"))
