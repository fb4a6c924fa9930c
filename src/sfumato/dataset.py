"""What the accounts of one open dataset have in common: its snapshot, its ledger, and what caps and bounds cut off."""

import json
import os
from dataclasses import replace
from threading import Lock, RLock
from weakref import WeakSet

from sfumato.accounting.event import to_json
from sfumato.engines.engine import Engine, SnapshotWatch
from sfumato.errors import Refusal
from sfumato.ledger.charge import Charge
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.payer import ChargedRelease, Payer
from sfumato.ledger.recorded_policy import DATASET
from sfumato.planning.bounding.truncation import TruncationBounds, plan_truncation_release
from sfumato.planning.plan import Plan
from sfumato.policy.policy import Policy
from sfumato.randomness.source import Source
from sfumato.release.bounding.truncation import release_truncation, truncation_bounds_of
from sfumato.release.noisy import noisy_from_json, noisy_to_json

LOSSES = "What caps and bounds cut off (budget.truncation)"
"""What `history` shows for it."""


class SharedDataset:
    """What the accounts of one open dataset have in common. The last handle that is closed lets go of it."""

    def __init__(self, engine: Engine, ledger: Ledger, watch: SnapshotWatch | None = None) -> None:
        self.engine = engine
        self.ledger = ledger
        self._watch = watch
        self._handles = 0
        self._losses: dict[str, TruncationBounds] = {}
        self._tried: set[str] = set()
        """The snapshots whose losses this process could not measure."""
        self._renew_locks()
        _OPEN.add(self)

    def _renew_locks(self) -> None:
        """Make locks that nobody holds: after a fork, the threads that held them do not exist."""
        self._lock = Lock()
        self._changing = RLock()

    def current(self) -> Engine:
        """Return the current snapshot: another process may have taken one since the last question."""
        if self._watch is not None and self._changing.acquire(
            blocking=False
        ):  # who comes meanwhile asks the one before
            try:
                newer = self._watch.open_newer(self.engine.version, self.ledger.identity)
                if newer is not None:
                    self.replace(newer)
            finally:
                self._changing.release()
        return self.engine

    def known(self) -> str | None:
        """Return the id of the snapshot that answers, unless another one may have taken its place."""
        return None if self._watch is not None and self._watch.may_have_changed() else self.engine.version

    def acquire_handle(self) -> None:
        """Count one more handle."""
        with self._lock:
            self._handles += 1

    def replace(self, engine: Engine) -> None:
        """Answer from another snapshot from now on; questions that are under way keep theirs."""
        with self._changing, self._lock:
            before, self.engine = self.engine, engine
        before.retire()

    def losses(self, engine: Engine, policy: Policy, payer: Payer, *, measure: bool) -> TruncationBounds | None:
        """Return what was published of what caps and bounds cut off of a snapshot; None where nothing was.

        If nobody has measured it, `measure` does, once for all accounts, at the dataset's expense: the charge is
        durable before anything is read, and what is published is kept with it. An attempt that failed is repeated when
        the dataset is opened again, at no further cost, and a budget that is too small leaves it unknown: neither is a
        reason to refuse an answer.
        """
        known = self.known_losses(engine.version, policy)
        plan = plan_truncation_release(policy) if known is None else None
        untried = measure and engine.stores_truncation_losses and engine.version not in self._tried
        if plan is None or plan.event is None or not untried:
            return known
        try:
            _publish_losses(engine, plan, policy, payer)
        except Refusal:
            self._tried.add(engine.version)
        return self.known_losses(engine.version, policy)

    def known_losses(self, version: str, policy: Policy) -> TruncationBounds | None:
        """Return what was published of a snapshot under this policy, whichever snapshot answers now; else None."""
        known = self._losses.get(version)
        plan = plan_truncation_release(policy) if known is None else None
        if plan is None or plan.event is None:
            return known
        stored = self.ledger.stored(DATASET, _question(plan), version)
        if stored is None:
            return None
        self._losses[version] = truncation_bounds_of(policy, plan, noisy_from_json(json.loads(stored)["noisy"]))
        return self._losses[version]

    def release_handle(self) -> None:
        """Count one handle less."""
        with self._lock:
            self._handles -= 1
            last = self._handles == 0
        if last:
            self.engine.close()
            self.ledger.close()


def _publish_losses(engine: Engine, plan: Plan, policy: Policy, payer: Payer) -> None:
    """Charge the dataset's own account, read and publish; who asks at the same time gets the same."""
    if plan.event is None:
        raise AssertionError("what is free is not charged")
    job = engine.prepare(plan)

    def release(_charge: Charge, source: Source) -> str:
        return json.dumps({"noisy": noisy_to_json(release_truncation(policy, plan, engine.run(job), source))})

    charged = ChargedRelease(_question(plan), LOSSES, plan.event, plan.loss, engine.version)
    replace(payer, account=DATASET).charge_and_publish(charged, release)


def _question(plan: Plan) -> str:
    return json.dumps(["truncation", None if plan.event is None else to_json(plan.event)])


_OPEN: WeakSet[SharedDataset] = WeakSet()


def _after_fork() -> None:
    for dataset in list(_OPEN):
        dataset._renew_locks()


os.register_at_fork(after_in_child=_after_fork)
