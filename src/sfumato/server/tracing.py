"""OpenTelemetry spans of requests, where its API is installed; its SDK, configured by the operator, sends them.

A span has the operation, the interface and the outcome code. It has no text of a question, no account and no value.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def request_span(verb: str, channel: str) -> Iterator[Callable[[str], None]]:
    """Trace a request; the block gets a function that notes a refusal. Without OpenTelemetry nothing happens."""
    tracer = _tracer()
    if tracer is None:
        yield _ignore
        return
    attributes = {"sfumato.verb": verb, "sfumato.channel": channel, "sfumato.outcome": "ok"}
    # the texts of exceptions may hold what an analyst typed
    options = {"record_exception": False, "set_status_on_exception": False}
    with tracer.start_as_current_span(f"sfumato {verb}", attributes=attributes, **options) as span:
        yield lambda outcome: span.set_attribute("sfumato.outcome", outcome)


def _ignore(_outcome: str) -> None:
    pass


def _tracer() -> Any:
    try:
        return import_module("opentelemetry.trace").get_tracer("sfumato")
    except ImportError:
        return None
