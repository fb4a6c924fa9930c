"""The state of a policy's snapshot without its engine: whether a ledger paid for it, and whether it is old."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from sfumato.engines.snapshot_paths import has_ledger
from sfumato.policy.policy import Policy
from sfumato.policy.schemes import SourceScheme, source_scheme


def was_paid_for(policy: Policy) -> bool:
    """Tell whether there is a snapshot that a ledger belongs to."""
    scheme = source_scheme(policy.source.scheme)
    return has_ledger(policy) if scheme is not None and scheme.status else bool(_backend(policy).has_ledger(policy))


def has_changed(policy: Policy) -> bool:
    """Tell the owner whether the source has changed since its snapshot was taken; no row is read."""
    scheme = source_scheme(policy.source.scheme)
    changed = _status(scheme) if scheme is not None and scheme.status else _backend(policy).has_changed
    return bool(changed(policy))


def _status(scheme: SourceScheme) -> Callable[[Policy], bool]:
    module, _, name = scheme.status.partition(":")
    status: Callable[[Policy], bool] = getattr(import_module(module), name)
    return status


def _backend(policy: Policy) -> Any:
    """Return the backend of a source; its module is named as text, because it needs all of an engine."""
    return import_module("sfumato.engines.opening").backend_of(policy)
