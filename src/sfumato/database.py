"""Database: the path from SQL text to a private answer, on one screen."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sfumato.analysis.catalog import Catalog
from sfumato.approvals import Requests
from sfumato.dataset import SharedDataset
from sfumato.diagnostics import log_event
from sfumato.engines.engine import Engine, PlannedStatement, Progress, checked_progress
from sfumato.engines.opening import open_engine
from sfumato.engines.post_processing.duckdb import evaluate
from sfumato.engines.snapshot_status import has_changed
from sfumato.errors import BadParameter, BudgetExhausted, PolicyChanged, Refusal, Setting
from sfumato.granted_texts import describe_granted
from sfumato.ledger.affordable_price import afforded
from sfumato.ledger.cohorts import named_cohort
from sfumato.ledger.history import HISTORY_PAGE_ENTRIES, page_of
from sfumato.ledger.ledger import Budget, Charge, Entry, Ledger, Verified
from sfumato.ledger.one_time_grants import has_grant
from sfumato.ledger.payer import Payer
from sfumato.ledger.windows import budget_notes
from sfumato.pilots import is_pilot, piloted_quote, source_within, with_goal_note
from sfumato.planning.bounding.truncation import TruncationBounds
from sfumato.planning.quote import Quote, for_household, make_quote
from sfumato.policy.accounts import account_of
from sfumato.policy.canonical import policy_hash
from sfumato.policy.policy import Policy, Sharing
from sfumato.policy.rights import visible_policy
from sfumato.prepare import Prepared, QueryPreparer, RequestedPrice, workload_price
from sfumato.query.describe import QueryDescription
from sfumato.query.types import Type
from sfumato.question_cohorts import paying_of
from sfumato.randomness.identity import fresh_id
from sfumato.randomness.source import Source
from sfumato.refining import is_known, publish_refined
from sfumato.rehearsal.policy import REHEARSAL_NOTE
from sfumato.release.bounding.selection import select_bounds, selected_indices
from sfumato.release.derivation import Derivation
from sfumato.release.key_rounds import add_later_rounds
from sfumato.release.noisy import NoisyResult
from sfumato.release.publish import publish
from sfumato.release.receipt import TIMING, Receipt
from sfumato.release.release import Release, as_printed, exact_release, make_release
from sfumato.release.rendering.pages import database_page
from sfumato.release.stages import read_and_publish, run_stages, stage_statements
from sfumato.stored_answer import (
    StoredAnswer,
    answer_from_json,
    answer_to_json,
    charged_release,
    make_receipt,
    no_such_answer,
)
from sfumato.views import ViewFinder, asks_for_what_is_known, combine_again, named_price, nominal_price, sourced_quote

PAID_NOTE = "Asking costs nothing: the measurements of this answer are already paid for."
GRANT_NOTE = "The owner has granted this question once: it is charged to the dataset, not to your own budget."
_SOURCE_IS_THE_OWNERS = "When the source changes may depend on the people in it, so only the data owner may see it."


class Database:
    """A dataset under its policy, for one account. Threads may share it; close it, or use it as a context manager."""

    def __init__(
        self,
        policy: Policy,
        account: str,
        engine: Engine,
        ledger: Ledger,
        source: Source,
        *,
        shared: SharedDataset | None = None,
        roles: tuple[str, ...] | None = None,
    ) -> None:
        self.policy = policy
        self.visible_policy = visible_policy(policy, account, claimed=roles)
        """The policy as this account may see it, for all that describes tables."""
        self.account = account
        self._shared = shared or SharedDataset(policy, engine, ledger)
        self._shared.acquire_handle()
        self.payer = Payer(ledger, account, policy_hash(policy), source)
        """What charges this account: for extension packages."""
        self.timing = TIMING
        """What receipts say of how long answers take: a server that pads them says so."""
        self.rehearsal = False
        """Whether the rows are synthetic; then every answer and quote says so."""
        self._preparation = QueryPreparer(policy, account, ledger, roles=roles)
        self._closed = False

    @property
    def engine(self) -> Engine:
        """The snapshot that answers now: for extension packages, which read it only behind a charge."""
        self._check_open()
        return self._shared.current()

    def as_analyst(self, name: str, roles: tuple[str, ...] | None = None) -> "Database":
        """Return a handle for an analyst's account, to be closed separately; with `roles`, it has only their rights."""
        self._check_open()
        if self.account:
            raise BadParameter(
                "An analyst cannot open another account.",
                "An analyst spends only from their own budget.",
                "Open the database without `analyst`.",
            )
        shared, payer, account = self._shared, self.payer, account_of(self.policy, name)
        parts = self.policy, account, shared.engine, payer.ledger, payer.source
        handle = Database(*parts, shared=shared, roles=roles)
        handle.timing, handle.rehearsal = self.timing, self.rehearsal
        return handle

    def ask(
        self,
        sql: str,
        *,
        epsilon: object = None,
        within: object = None,
        share: object = None,
        delta: object = None,
        key: str | None = None,
        parameters: object = None,
        progress: Progress | None = None,
    ) -> Release:
        """Return a private answer and charge it, or refuse. Asking the same again returns the same at no cost.

        `epsilon` is the most that the whole query may cost; `within` asks for 95 % margins, by column, such as 25 or
        "5%"; `share` spends a part of this account's budget, such as "2%", as its ledger counts it. `key` names this
        attempt, so that it can be taken up again after a crash without a second charge.
        `parameters` are the values of $1, $2, … or :name in the text: a list, or a dict. `progress` is called with the
        phases of a long answer.
        """
        tell = checked_progress(progress)
        tell("plan", "")
        wanted = sql, parameters, RequestedPrice(epsilon, within, share, delta), key
        while is_pilot(asked := self._with_sources(*wanted)):
            self._answer(asked, None, tell)  # its numbers set the price of the next measurement
        if asked.plan.event is None:
            return self._free(asked)
        if asked.known is not None:
            return self._known(asked, asked.known)
        if asked.kept is not None:
            return replace(self._open_stored(asked, asked.kept)[0], repeated=True)
        return self._answer(asked, key, tell)[0]

    def ask_all(
        self,
        questions: Sequence[str],
        *,
        epsilon: object = None,
        share: object = None,
        delta: object = None,
        weights: object = None,
        within: object = None,
        key: str | None = None,
        progress: Progress | None = None,
    ) -> list[Release]:
        """Return the answers of several questions that are charged as one, or refuse all of them.

        What they have in common is measured once, and counts and sums of the same rows by different keys agree.
        `epsilon`, or `share`, is what all may cost together; `weights` says how much each question's error counts, for
        example [1, 1, 4]; `within` has margins for each question, [{"n": 25}, None], which are reached at the least
        price. Asking the same list again returns the same at no cost.
        """
        tell = checked_progress(progress)
        tell("plan", "")
        self._check_open()
        engine, free = self.engine, RequestedPrice()
        read = self._preparation.analyse_all(questions, engine)
        paid = [index for index, query in enumerate(read) if query.private.groups]
        price = workload_price(RequestedPrice(epsilon, within, share, delta), weights, len(read), paid)
        found: dict[int, Release] = {}
        if paid:
            asked = self._preparation.prepare_workload([read[index] for index in paid], price, key, engine)
            if asked.plan.event is not None:
                found = dict(zip(paid, self._answer(asked, key, tell), strict=True))
        return [
            found[index]
            if index in found
            else self._free(self._preparation.prepare_analysed(query, free, None, engine))
            for index, query in enumerate(read)
        ]

    def _answer(self, asked: Prepared, key: str | None, tell: Progress) -> list[Release]:
        """Charge, read, add noise: the one place where questions look at private rows."""
        fresh: list[tuple[NoisyResult, Receipt]] = []

        def release(charge: Charge, source: Source) -> str:
            tell("run", "")
            noisy = _noisy(asked, source, tell)
            receipt = asked.with_sources(self._receipt(asked, charge.receipt, charge, noisy))
            fresh.append((noisy, receipt))
            return answer_to_json(receipt, noisy, asked)

        tell("charge", "")
        again, charged = asked.refinement, charged_release(asked, self.policy)
        try:
            stored = self.payer.charge_and_publish(charged, release, again.key if again else key)
        except BadParameter:
            if again is None:
                raise
            return self._answer(again.fresh, key, tell)  # it was refined to another price just now
        except BudgetExhausted as refusal:
            wanted = asked.plan.private, asked.price_target, refusal, asked.paying
            failure = afforded(self.payer.ledger, self.account, *wanted)
        else:
            shown = self._make_releases(asked, *fresh[0]) if fresh else self._open_stored(asked, stored)
            return [replace(answer, repeated=not fresh) for answer in shown]
        raise failure  # with what the rest of the budget would buy

    def explain(
        self,
        sql: str,
        *,
        epsilon: object = None,
        within: object = None,
        share: object = None,
        delta: object = None,
        parameters: object = None,
        household: object = None,
    ) -> Quote:
        """Return price, share, margins and mechanisms. It reads no private data, is free, and refuses when `ask` would.

        `share`, `used_after` and `spent_after` say what it would do to this account's budget.
        With `household`, a number of people, it also says what they lose together.
        """
        price = RequestedPrice(epsilon, within, share, delta)
        asked = self._with_sources(sql, parameters, price)
        plan = asked.plan if asked.known is None else asked.known.plan
        quote = make_quote(plan, self._shared.truncation_bounds(asked.engine.version), self.policy.budget.truncation)
        quote = piloted_quote(sourced_quote(asked, quote, self.payer.ledger, self.account), asked)
        quote, ledger, paying = for_household(quote, household), self.payer.ledger, asked.paying
        notes = (*((REHEARSAL_NOTE,) if self.rehearsal else ()), *budget_notes(self.policy))
        cohorts = () if paying is None else paying.visible_names
        quote = replace(quote, notes=(*notes, *quote.notes), cohorts=cohorts)
        if asked.costs_nothing:
            new = nominal_price(self.policy) if asks_for_what_is_known(price) else price
            own = asked.only_granted or asked.price_target.goal
            quote = quote.paid((asked if own else self.prepare(sql, parameters, new)).plan.loss)
            effect = ledger.effect_of(None, self.account, paying=paying)
            return replace(quote, notes=(PAID_NOTE, *quote.notes), effect=effect)
        if has_grant(ledger.open_requests(), self.account, asked.fingerprint, asked.plan.event):
            effect = ledger.effect_of(asked.plan.event, self.account, granted=True, paying=paying)
            return replace(quote, notes=(GRANT_NOTE, *quote.notes), effect=effect)
        return replace(quote, effect=ledger.effect_of(asked.plan.event, self.account, paying=paying))

    def statements(
        self,
        sql: str,
        *,
        epsilon: object = None,
        within: object = None,
        share: object = None,
        delta: object = None,
        parameters: object = None,
    ) -> tuple[PlannedStatement, ...]:
        """Show the data owner the statements that read the bounded copy for a question. No private data is read."""
        self.require_owner("see statements", "They name the tables of the bounded copy, which only the owner may see.")
        asked = self.prepare(sql, parameters, named_price(RequestedPrice(epsilon, within, share, delta), self.policy))
        return stage_statements(asked.plan, lambda plan: asked.engine.statements(asked.engine.prepare(plan)))

    def prepare(self, sql: str, parameters: object, price: RequestedPrice, key: str | None = None) -> Prepared:
        """Return a question with its plan, as `ask` would charge it, or refuse: for extension packages. It is free."""
        return self._preparation.prepare(sql, parameters, price, key, self.engine)

    def describe(self, sql: str, types: Mapping[str, Type], arrays: Collection[str] = ()) -> QueryDescription:
        """Return the columns and parameters of a question with their types, before it has values or a price."""
        return describe_granted(self._preparation, sql, types, arrays, self.policy, self.catalog, self._shared.engine)

    def columns(self) -> dict[str, dict[str, str]]:
        """Return every table of the policy with its columns and their types, as questions may name them."""
        tables = self.catalog.tables
        return {name: dict(tables[name].columns) for name in sorted(tables) if self.policy.table(name) is not None}

    def reopen(self, receipt: str, *, question: object = None) -> Release:
        """Return an answer that this account has paid for, by the id of its receipt. It is free.

        Of questions that were asked together, `question` says which: 1 is the first that was charged.
        With `answers = "shared"` in the policy other accounts have paid for it, too.
        """
        self._check_open()
        account = None if self.policy.answers is Sharing.SHARED else self.account
        found = self.payer.ledger.settled(receipt, account) if isinstance(receipt, str) else None
        if found is None or found.release is None:
            raise no_such_answer()
        stored = StoredAnswer(found, json.loads(found.release))
        place = stored.question_index(question)
        try:
            asked = stored.prepare_again(self._preparation, self.engine)
        except Refusal:
            if found.account == self.account:
                raise
            asked = None
        if asked is None:  # another account's question names what this one may not use: its text stays hidden
            raise no_such_answer()
        if not stored.answers(asked, self.payer.policy):
            raise PolicyChanged(
                "This answer cannot be shown again.",
                "The policy or a public table that it was made with has changed since.",
                "Ask the question again; it may be charged.",
            )
        return self._open_stored(asked, found.release)[place]

    def refresh(self, progress: Progress | None = None) -> str:
        """Take a new snapshot of the source and return its id.

        This handle answers from it at once, and those made by `as_analyst`; others, also of other processes, from
        their next question on. Until it is complete, and if it cannot be taken, answers come from the one before.
        Questions that were answered about that one cost again, and `budget.truncation` is charged.
        """
        self.require_owner("take a snapshot")
        with open_engine(self.policy, checked_progress(progress), again=True) as taken:
            engine = taken.commit(self.payer.ledger.identity())
        try:
            self._shared.measure_truncation(engine, self.payer)
        finally:
            self._shared.replace(engine)
        log_event("snapshot", dataset=self.policy.name, version=engine.version)
        return engine.version

    def measure_truncation(self) -> None:
        """Measure the truncation losses of this snapshot if the policy pays for it and they are unknown."""
        self._check_open()
        self._shared.measure_truncation(self._shared.engine, self.payer)

    def source_changed(self) -> bool:
        """Tell the owner whether the source has changed since the last snapshot, as far as it tells that."""
        self.require_owner("see the source")
        return has_changed(self.policy)

    def budget(self, cohort: object = None) -> Budget:
        """Return what this account may spend, the share that is used, a bound of all answers, and what is left.

        Where people have budgets by cohort, it is that of the fullest, with all in `cohorts`; or that of one `cohort`.
        """
        every = paying_of(self.engine, shown=self._preparation.shows_cohorts)
        return self.payer.ledger.budget(self.account, named_cohort(cohort, every))

    def history(self, limit: object = HISTORY_PAGE_ENTRIES, before: object = None) -> tuple[Entry, ...]:
        """Return what was charged to this account, newest first: at most `limit` entries older than entry `before`."""
        self._check_open()
        return self.payer.ledger.history(self.account, *page_of(limit, before))

    @property
    def requests(self) -> Requests:
        """Requests for one question beyond an analyst's cap or rights: an analyst files them, the owner decides."""
        self._check_open()
        paid, roles = partial(is_known, finder=self._finder), self._preparation.roles
        return Requests(self.payer, self.prepare, paid, self.ask, self.policy, self._shared.current, roles)

    def entry(self, receipt: str) -> Entry | None:
        """Return the charge of this account that was answered under a receipt; None where there is none."""
        self._check_open()
        return self.payer.ledger.settled(receipt, self.account)

    def charges(self) -> int:
        """Return how many charges this account has made."""
        self._check_open()
        return self.payer.ledger.count_charges(self.account)

    @property
    def catalog(self) -> Catalog:
        """The tables that a question of this account may name."""
        self._check_open()
        return self.catalog_of(self._shared.engine)

    def catalog_of(self, engine: Engine) -> Catalog:
        """Return the same for one snapshot: for extension packages, which read the names of questions against it."""
        return self._preparation.catalog(engine)

    @property
    def version(self) -> str:
        """The id of the snapshot that answers: random, and in every receipt."""
        return self.engine.version

    def known_version(self) -> str | None:
        """Return the same without opening anything; None where another process may have taken a snapshot since."""
        self._check_open()
        return self._shared.known()

    def verify(self) -> Verified:
        """Replay the ledger's hash chain and its sums with the second reader, or refuse."""
        self._check_open()
        return self.payer.ledger.verify()

    def close(self) -> None:
        """Let go of the copy and the ledger. Closing twice is fine."""
        if not self._closed:
            self._closed = True
            self._shared.release_handle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        account = f", analyst={self.account!r}" if self.account else ""
        return f"Database({self.policy.name!r}{account}{', rehearsal=True' if self.rehearsal else ''})"

    def _repr_html_(self) -> str:
        """Show a notebook what can be asked: the tables with their columns, and what is left."""
        return database_page(self.visible_policy, self.account, None if self._closed else self.budget())

    def _with_sources(self, sql: str, parameters: object, price: RequestedPrice, key: str | None = None) -> Prepared:
        """Return a question with what answers it: kept measurements where they are as exact as it asks, or its own."""
        return source_within(sql, parameters, price, key, self.engine, self._finder, self.account, self.policy)

    @property
    def _finder(self) -> ViewFinder:
        account = None if self.policy.answers is Sharing.SHARED else self.account
        return ViewFinder(self._preparation, self.payer.ledger, account)

    def _known(self, asked: Prepared, known: Derivation) -> Release:
        """Answer from kept measurements: nothing is charged, read or drawn."""
        new = self._receipt(asked, fresh_id(self.payer.source))
        receipt = replace(new, loss=known.plan.loss, rests_on=known.rests_on)
        release = make_release(known.plan, known.noisy, receipt, evaluate, self._truncation_bounds(asked, receipt))
        noted = release.noted.after([f"Free: from your answer of {known.when}."])
        return self._mark_release(replace(release, repeated=True, noted=noted))

    def _receipt(
        self, asked: Prepared, name: str, charge: Charge | None = None, noisy: NoisyResult | None = None
    ) -> Receipt:
        return make_receipt(asked, name, self.payer, self.policy, self.timing, charge, noisy)

    def _open_stored(self, asked: Prepared, stored: str) -> list[Release]:
        return self._make_releases(asked, *answer_from_json(stored, asked))

    def _make_releases(self, asked: Prepared, noisy: NoisyResult, receipt: Receipt) -> list[Release]:
        bounds, named = self._truncation_bounds(asked, receipt), receipt.cohorts if asked.shows_cohorts else ()
        receipt, plans = replace(receipt, units=asked.units, cohorts=named), asked.outcomes
        if receipt.rests_on:
            combined = combine_again(asked, noisy, receipt.rests_on, self._finder)
            plans, noisy = (combined.plan,), combined.noisy
        made = [make_release(plan, noisy, receipt, evaluate, bounds) for plan in plans]
        return [self._mark_release(with_goal_note(release, asked)) for release in made]

    def _mark_release(self, release: Release) -> Release:
        notes = (*((REHEARSAL_NOTE,) if self.rehearsal else ()), *budget_notes(self.policy))
        return replace(release, noted=release.noted.after(notes))

    def _truncation_bounds(self, asked: Prepared, receipt: Receipt) -> TruncationBounds | None:
        """Return the truncation losses of the snapshot that gave an answer; None under another policy."""
        if receipt.version != asked.engine.version and receipt.policy != self.payer.policy:
            return None
        return self._shared.truncation_bounds(receipt.version)

    def _free(self, asked: Prepared) -> Release:
        """Answer what touches no person: public tables, and the keys that a policy declares."""
        receipt, plan = self._receipt(asked, fresh_id(self.payer.source)), asked.plan
        if plan.groups:
            noisy = publish(plan, asked.engine.run(asked.job), self.payer.source)
            return self._mark_release(make_release(plan, noisy, receipt, evaluate))
        facts, columns = as_printed(plan.private, asked.engine.query_public(plan.private.outcome))
        return self._mark_release(exact_release(plan.private.names, facts, columns, receipt, plan.private.notes))

    def require_owner(self, what: str, why: str = _SOURCE_IS_THE_OWNERS) -> None:
        """Refuse an analyst's handle: for tools that show what only the data owner may see."""
        self._check_open()
        if self.account:
            raise BadParameter(
                f"An analyst cannot {what}.", why, ("Open the database without ", Setting("analyst"), ".")
            )

    def _check_open(self) -> None:
        if self._closed:
            raise BadParameter(
                "This database is closed.", "Its copy and its ledger were closed.", "Open it again with sfumato.open."
            )


def _noisy(asked: Prepared, source: Source, tell: Progress) -> NoisyResult:
    """Read, and add noise. Nothing exact goes on: all of it is freed here, before the outcome's time is waited for."""
    run = partial(read_and_publish, asked.engine, source)
    if asked.plan.private.first:
        return run_stages(asked.plan, run, evaluate)  # first measurements are noisy before they are used
    histograms = asked.engine.run_selection(asked.job)  # exact, secret; none where the question selects no bound
    selected = select_bounds(asked.plan, histograms, source)  # noisy, and the bounds that they suggest
    aggregates = asked.engine.run(asked.job, selected_indices(selected), histograms)  # exact integers, clipped, secret
    tell("noise", "")
    if asked.refinement is not None:
        return publish_refined(asked.plan, aggregates, asked.refinement, source)
    return add_later_rounds(asked.plan, publish(asked.plan, aggregates, source, selected), run)  # noise, thresholds


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Return what moved to `sfumato.opening`: the documentation of 0.9.0 imports it from here."""
        if name not in ("accounts", "open", "refreshed"):
            raise AttributeError(f"module 'sfumato.database' has no attribute {name!r}")
        return getattr(import_module("sfumato.opening"), name)
