"""Opening the source of a policy: its scheme decides which engine, whose driver is imported when it is needed."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module

from sfumato.engines.engine import Backend, Limits, PendingSnapshot, Progress, SnapshotWatch
from sfumato.engines.inspection import SourceReport
from sfumato.engines.limits import limits_of
from sfumato.engines.source_catalogue import SourceCatalogue
from sfumato.errors import BadSource, Refusal
from sfumato.policy.policy import Location, Policy
from sfumato.policy.schemes import source_scheme, source_schemes


def open_engine(
    policy: Policy,
    progress: Progress,
    limits: Limits | None = None,
    *,
    again: bool = False,
    first: Callable[[], None] | None = None,
) -> AbstractContextManager[PendingSnapshot]:
    """Find the current snapshot of a policy's source, or take one aside; who keeps it has the engine.

    In between, the ledger is opened: a refusal there has changed nothing.
    """
    return backend_of(policy).take(policy, progress, limits or limits_of(policy), again=again, first=first)


def watch_engine(policy: Policy) -> SnapshotWatch:
    """Return what notices that another process has taken a snapshot of the policy's source."""
    return backend_of(policy).watch(policy)


class OldSnapshot(UserWarning):
    """The source has changed, and no snapshot of it could be taken: answers come from the one before."""


def warn_owner(refused: Refusal | None) -> None:
    """Warn the data owner that answers come from an old snapshot, and say why; analysts must not see this."""
    if refused is not None:
        what = "The source has changed, but no new snapshot could be taken. Answers still come from the previous one."
        warnings.warn(f"{what} {refused}", OldSnapshot, stacklevel=5)


def inspected(policy: Policy) -> SourceReport | None:
    """Count for the owner what the source loses on its way into the copy; None where the engine cannot tell."""
    inspect = backend_of(policy).inspect
    return None if inspect is None else inspect(policy)


def described(location: Location) -> SourceCatalogue | None:
    """Return what the catalogue of a source declares; None where its engine has none. No row is read."""
    describe = _backend(location.scheme).describe
    return None if describe is None else describe(location)


def backend_of(policy: Policy) -> Backend:
    """Return how sources of the policy's scheme are opened."""
    return _backend(policy.source.scheme)


def _backend(name: str) -> Backend:
    scheme = source_scheme(name)
    if scheme is None:
        raise BadSource(
            f"source starts with {name}:.",
            "No installed engine reads that.",
            f"Write one of {', '.join(f'{known.name}:' for known in source_schemes(name))}.",
        )
    module, _, attribute = scheme.backend.partition(":")
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError as error:
        missing = BadSource(
            f"The engine for {name}: cannot be loaded.",
            f"It needs the module {error.name or module}, which is not installed.",
            f"Install it: pip install '{scheme.install or module}'.",
        )
    else:
        if isinstance(found, Backend):
            return found
        missing = BadSource(
            f"The engine for {name}: cannot be loaded.",
            f"{scheme.backend} is not a Backend.",
            "Correct or reinstall the package that declares it.",
        )
    raise missing
