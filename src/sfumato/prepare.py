"""Everything that is done before a charge: text, policy, public tables and, for a share, the ledger decide it."""

import json
import os
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from hashlib import sha256
from weakref import finalize

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.analysis.catalog import Catalog, visible_catalog
from sfumato.analysis.paying_cohorts import paying_cohorts
from sfumato.analysis.private_query import PrivateQuery
from sfumato.caches import SizedCache, size_of
from sfumato.engines.cohort_set import cohorts_of
from sfumato.engines.engine import Engine, Job
from sfumato.engines.time_limit import PlanningClock
from sfumato.errors import BadParameter, Setting, UnknownName, UnsupportedSql
from sfumato.ledger.approvals import granted_names
from sfumato.ledger.cohorts import PayingCohorts
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.one_time_grants import GrantedName
from sfumato.plan_choice import PlanChooser, Standing
from sfumato.planning.fingerprint import materialized_bytes, query_fingerprint, tables_read
from sfumato.planning.measurement_identity import SharedParts, measurement_identity
from sfumato.planning.named_plans import NamedPlans, named_plans
from sfumato.planning.notes.plan_notes import with_notes
from sfumato.planning.plan import Plan
from sfumato.planning.planner import PriceTarget, parse_price_target
from sfumato.planning.price_target import StoredPlanKey
from sfumato.planning.release_names import ReleaseNames
from sfumato.planning.workload import parse_questions, parse_weights, workload_of
from sfumato.planning.workload_margins import per_question, workload_target
from sfumato.planning.workload_plans import workload_plans
from sfumato.policy.canonical import tables_digest
from sfumato.policy.describing import units_of
from sfumato.policy.policy import Policy, Preview, fold_name
from sfumato.policy.rights import may_see_cohorts, rights_of, visible_policy
from sfumato.query.expression import Literal
from sfumato.query.parameters import Bindings, LiteralList, bind, inline_parameters
from sfumato.query.parse import parse
from sfumato.query.probes import without_reading
from sfumato.query.relation import Options, Query
from sfumato.question_cohorts import all_cohorts, paying_of, with_cohort_notes, with_cohorts
from sfumato.release.derivation import Derivation
from sfumato.release.noisy import NoisyResult
from sfumato.release.receipt import Receipt
from sfumato.release.stages import with_any_value

MAX_QUESTION_BYTES = 1 << 28
"""Bytes of questions with their plans that are remembered in one process, for all accounts together."""
MAX_ACCOUNT_QUESTION_BYTES = 1 << 25
"""Bytes of questions with their plans that are remembered for one account's handle."""
_QUERY_CACHE = SizedCache(MAX_QUESTION_BYTES, MAX_ACCOUNT_QUESTION_BYTES)
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_QUERY_CACHE.renew)
_TextWithValues = tuple[str, frozenset[tuple[str, Literal | LiteralList]] | None]
"""A text with the values of its parameters."""


@dataclass(frozen=True, slots=True)
class RequestedPrice:
    """What was said of the price, as it was typed; `stored_plan` tells the plan of an answer that was given before."""

    epsilon: object = None
    within: object = None
    share: object = None
    delta: object = None
    stored_plan: StoredPlanKey | None = None
    fixed: bool = field(default=False, kw_only=True)
    """Whether margins are known before the data is read, wherever that is possible, though no margin is named."""
    weights: tuple[Fraction, ...] = field(default=(), kw_only=True)
    """How much each question of a workload counts; () where all count the same."""
    beyond_own_cap: bool = field(default=False, kw_only=True)
    """Whether margins may cost as much as the dataset has: a request asks for more than the analyst has."""


def workload_price(price: RequestedPrice, weights: object, questions: int, paid: Sequence[int]) -> RequestedPrice:
    """Return the price of those questions of a workload that are paid for, from what was said of all of them."""
    each = parse_weights(weights, questions)
    within = None if price.within is None else per_question(price.within, questions)
    margins = None if within is None else [within[place] for place in paid]
    return replace(price, within=margins, weights=tuple(each[place] for place in paid) if each else ())


@dataclass(frozen=True, slots=True)
class Refinement:
    """The earlier answer that a question makes more exact, with its noisy numbers in the order of the plan."""

    receipt: str
    time: datetime
    noisy: NoisyResult
    before: Mapping[tuple[str, str], Fraction]
    """The scale of the earlier noise of each measurement."""
    fresh: "Prepared"
    """The question without refinement."""

    @property
    def key(self) -> str:
        """The key of its charge: an answer is refined once."""
        return f"refines {self.receipt}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question that could be asked, or several: everything that is known before it is charged."""

    sql: str
    price_target: PriceTarget
    plan: Plan
    job: Job
    """What the engine prepared, and runs after the charge."""
    names: "ReleaseNames"
    engine: Engine
    """The snapshot that answers, also if another one takes its place meanwhile."""
    outcomes: tuple[Plan, ...]
    """The plan with the outcome of each question."""
    units: str
    """Whom the private tables that it reads protect."""
    texts: tuple[str, ...]
    """The text of each question, in the order of `outcomes`."""
    plans: tuple[tuple[Plan, ReleaseNames], ...] = ()
    """All plans that may answer one question, with their names."""
    paid: bool = False
    """Whether the account, or one that shares its answers, has paid for exactly this already."""
    known: Derivation | None = None
    """The kept measurements that answer it at no cost."""
    refinement: Refinement | None = None
    """The earlier answer that it makes more exact, for the difference of the prices."""
    combined: Derivation | None = None
    """The kept measurements that its own are combined with."""
    refines: str = ""
    """The receipt of the earlier answer that it makes more exact by fresh Gaussian noise; or nothing."""
    kept: str | None = None
    """The stored release that answers it at no cost, because it asks for no more accuracy than that has."""
    only_granted: bool = False
    """Whether only a one-time grant may pay for it: it names what the account may not use otherwise."""

    shows_cohorts: bool = True
    """Whether the account may see the names of cohorts."""
    is_new: bool = False
    """Whether the account has no charge that could have measured the same cells, at whatever price."""

    @property
    def paying(self) -> PayingCohorts | None:
        """The cohorts that pay for it; None where all people share one budget."""
        return paying_of(self.engine, self.plan.cohorts, shown=self.shows_cohorts)

    @property
    def costs_nothing(self) -> bool:
        """Whether its answer is kept already, or follows from kept ones."""
        return self.paid or self.kept is not None or self.known is not None

    @property
    def fingerprint(self) -> str:
        """The identity of what is measured, under which the release is stored."""
        return self.names.fingerprint

    def with_sources(self, receipt: Receipt) -> Receipt:
        """Return a receipt that names the earlier answers which this one is made from."""
        return replace(
            receipt,
            rests_on=receipt.rests_on if self.combined is None else self.combined.rests_on,
            refines=self.refines if self.refinement is None else self.refinement.receipt,
        )

    @property
    def fingerprint_digest(self) -> str:
        """The SHA-256 of the fingerprint, as stored releases name it."""
        return sha256(self.fingerprint.encode()).hexdigest()

    @property
    def fingerprint_digests(self) -> tuple[str, ...]:
        """The same for every name under which it may be stored."""
        return tuple(sha256(text.encode()).hexdigest() for text in (self.fingerprint, *self.names.older))


@dataclass(frozen=True, slots=True)
class AnalysedQuery:
    """One question, parsed and analysed."""

    sql: str
    query: Query
    private: PrivateQuery
    key: Hashable = field(default=None, compare=False, repr=False)
    """The key under which it is remembered; None where it is not."""
    bytes: int = field(default=0, compare=False, repr=False)
    """The bytes of everything in it."""

    @property
    def parts(self) -> tuple[object, ...]:
        """What its plans hold of it."""
        parts: list[object] = [self.query, self.private, self.private.outcome, self.private.groups, self.key]
        for group in self.private.groups:
            parts += [group, group.rows, group.unit, group.keys, group.asked, group.contribution, group.combinations]
            parts += [part for key in group.keys for part in (key, key.scalar, key.cells)]
            parts += [part for one in group.asked for part in (one, one.aggregate, *one.aggregate.parts)]
        return tuple(parts)


class QueryPreparer:
    """Prepares the questions of one account.

    A question that was read is remembered as long as the snapshot answers: the result for a text depends on policy and
    catalog alone, and neither changes under it. Its plans are functions of text, policy and price target, and are
    remembered, too. Nothing of the ledger or of people's rows is. Nothing is shared with another account, so that the
    time of reading does not depend on what others asked. Bytes are limited for each account, and for all together.
    """

    def __init__(
        self,
        policy: Policy,
        account: str,
        ledger: Ledger,
        granted: Collection[GrantedName] = (),
        *,
        roles: tuple[str, ...] | None = None,
    ) -> None:
        self._policy = policy
        self._shown = visible_policy(policy, account, granted, claimed=roles)
        self._account = account
        self._ledger = ledger
        self._rights = rights_of(policy, account, granted, claimed=roles)
        self.roles = roles
        """The roles that an identity provider gave; None where the policy says them."""
        self.shows_cohorts = may_see_cohorts(policy, account, roles)
        self._visible: tuple[Catalog, Catalog] | None = None
        """The last whole catalog, and what this account may use of it."""
        self._digests: dict[frozenset[str], str] = {}
        self._version = ""
        """The snapshot that questions are remembered for."""
        self._owner = object()
        finalize(self, _QUERY_CACHE.forget_later, self._owner).atexit = False

    @property
    def remembered_bytes(self) -> int:
        """The accounted bytes of the questions that are remembered here."""
        return _QUERY_CACHE.bytes_of(self._owner)

    def catalog(self, engine: Engine) -> Catalog:
        """Return the tables that questions of this account may name: every text is read against this catalog."""
        whole, visible = engine.catalog, self._visible
        if visible is None or visible[0] is not whole:
            visible = self._visible = whole, visible_catalog(whole, self._rights)
        return visible[1]

    def prepare(
        self,
        sql: str,
        parameters: object,
        price: RequestedPrice,
        key: str | None,
        engine: Engine,
        *,
        alone: bool = False,
    ) -> Prepared:
        """Read one question and prepare it."""
        clock = PlanningClock()
        read = self._read(sql, parameters, engine, clock)
        return self.prepare_analysed(read, price, key, engine, clock, alone=alone)

    def with_granted_names(self, text: str) -> "QueryPreparer | None":
        """Return a preparer with the names that the owner has granted for exactly this text; None where none are."""
        names = () if self._rights.complete else granted_names(self._ledger, self._account, text)
        return QueryPreparer(self._policy, self._account, self._ledger, names, roles=self.roles) if names else None

    def prepare_analysed(
        self,
        read: AnalysedQuery,
        price: RequestedPrice,
        key: str | None,
        engine: Engine,
        clock: PlanningClock | None = None,
        *,
        alone: bool = False,
    ) -> Prepared:
        """Prepare one question that was read.

        `alone` says that the preferred plan suffices where no charge of the account can have measured its cells.
        """
        clock = clock or PlanningClock()
        target = self._price_target(price, read.query.options, paying_of(engine, read.private.cohorts))
        tables = tables_read(read.query.relation)
        alone = alone or price.stored_plan is not None
        found = self._plans_of(read, target, tables, alone=alone)
        clock.check()
        chooser = PlanChooser(self._ledger, self._account, engine)
        standing = chooser.standing(found, price.stored_plan, key) if alone else None
        if standing is None and not found.complete:
            found = self._plans_of(read, target, tables)
            clock.check()
        place = 0 if standing is not None else chooser.index_in(found, target, price.stored_plan, key)
        chosen = found.noted[place] = found.noted.get(place) or with_notes(found.plans[place])
        job = engine.prepare(with_any_value(chosen))
        clock.check()
        return Prepared(
            read.sql,
            target,
            chosen,
            job,
            found.names[place],
            engine,
            (chosen,),
            self._units(tables),
            (read.sql,),
            tuple(zip(found.plans, found.names, strict=True)),
            paid=standing is Standing.PAID,
            is_new=standing is Standing.NEW,
            shows_cohorts=self.shows_cohorts,
        )

    def prepare_workload(
        self, read: Sequence[AnalysedQuery], price: RequestedPrice, key: str | None, engine: Engine
    ) -> Prepared:
        """Prepare several questions that are charged as one. One that reads public tables alone is asked alone."""
        for at, analysed in enumerate(read, 1):
            if analysed.query.options.epsilon is not None or analysed.query.options.delta is not None:
                raise BadParameter(
                    f"Question {at} has its own price.",
                    "Questions that are asked together have one price.",
                    ("Leave OPTIONS(epsilon, delta) out, and say ", Setting("epsilon"), " for all of them."),
                )
        if len(read) == 1:
            within = price.within[0] if isinstance(price.within, list) else price.within
            return self.prepare_analysed(read[0], replace(price, within=within), key, engine)
        if any(analysed.private.first for analysed in read):
            raise UnsupportedSql(
                "A query of this workload compares rows with a value that it measures first.",
                "The queries of a workload are measured together, in one step.",
                "Ask this query alone, or ask for the value first and write the answer as a number.",
            )
        clock = PlanningClock()
        cohorts = all_cohorts([analysed.private.cohorts for analysed in read], engine)
        questions = [with_cohort_notes(replace(analysed.private, cohorts=cohorts)) for analysed in read]
        workload = workload_of(questions)
        wanted = self._price_target(price, Options(), paying_of(engine, cohorts), together=True)
        weights = workload.group_weights(price.weights) if price.stored_plan is None else price.stored_plan.weights
        target = replace(wanted, weights=weights, split=None if price.stored_plan is None else price.stored_plan.split)
        if price.within is not None and price.stored_plan is None:
            target = workload_target(workload, target, price.within)
        planned = workload_plans(workload, questions, target)
        plans = tuple(plan for plan, _ in planned)
        tables: set[str] = set().union(*(tables_read(analysed.query.relation) for analysed in read))
        digest = with_cohorts(self._tables_digest(tables), cohorts)
        names = [
            ReleaseNames(
                measurement_identity(plan, digest),
                json.dumps([query_fingerprint(analysed.query, plan, digest) for analysed in read]),
            )
            for plan in plans
        ]
        chooser = PlanChooser(self._ledger, self._account, engine)
        place = chooser.index_in(NamedPlans(plans, names, {}), target, price.stored_plan, key)
        outcomes = planned[place][1].plans(plans[place])
        clock.check()
        jobs = [engine.prepare(outcome) for outcome in outcomes]  # each outcome has to be one that can be computed
        clock.check()
        written, units = tuple(analysed.sql for analysed in read), self._units(tables)
        return Prepared(
            ";\n".join(written),
            target,
            with_notes(plans[place]),
            jobs[0],
            names[place],
            engine,
            outcomes,
            units,
            written,
            shows_cohorts=self.shows_cohorts,
        )

    def analyse_all(self, texts: object, engine: Engine) -> list[AnalysedQuery]:
        """Read several questions, each once."""
        clock = PlanningClock()
        return [self._read(sql, None, engine, clock) for sql in parse_questions(texts)]

    def _plans_of(
        self, read: AnalysedQuery, target: PriceTarget, tables: set[str], *, alone: bool = False
    ) -> NamedPlans:
        """Return the plans of a question with their names, or the preferred one `alone` where it is known by itself."""
        remembered = None if read.key is None or target.share is not None else (read.key, target)
        found: NamedPlans | None = None if remembered is None else _QUERY_CACHE.get(remembered)
        if found is None or not (found.complete or alone):
            shared = self._shared_parts(read)
            digest = with_cohorts(self._tables_digest(tables), read.private.cohorts)
            private = with_cohort_notes(read.private)
            found = named_plans(read.query, private, target, digest, shared, alone=alone)
            new = shared.counted_plans < len(found.plans)
            if new and read.key is not None:  # the plans of other prices have as many parts
                shared.counted_plans = len(found.plans)
                shared.max_plan_bytes = size_of((found, remembered, shared), read.parts) // len(found.plans)
            known = read.bytes + len(found.plans) * shared.max_plan_bytes
            if remembered is not None:  # what a share buys depends on the account
                _QUERY_CACHE.put(remembered, found, self._owner, counted=(remembered, found), counted_bytes=known)
            if read.key is not None and new:
                parts = (read.key, SharedParts)
                _QUERY_CACHE.put(parts, shared, self._owner, counted=(read.key, shared), counted_bytes=known)
        return found

    def _shared_parts(self, read: AnalysedQuery) -> SharedParts:
        """Return what the plans of a question have in common, at whatever price."""
        found: SharedParts | None = None if read.key is None else _QUERY_CACHE.get((read.key, SharedParts))
        return SharedParts() if found is None else found

    def _read(self, sql: str, parameters: object, engine: Engine, clock: PlanningClock) -> AnalysedQuery:
        bindings = bind(parameters)
        if self._version != engine.version:
            self._version = engine.version
            _QUERY_CACHE.forget(self._owner)
        asked: _TextWithValues = str(sql), None if bindings is None else frozenset(bindings.items())
        key = self._owner, engine.version, asked
        read: AnalysedQuery | None = _QUERY_CACHE.get(key) if isinstance(sql, str) else None
        if read is None:
            read = self._analyse(sql, bindings, engine, clock)
            read = replace(read, key=key, bytes=size_of((key, read)) + materialized_bytes(read.private))
            _QUERY_CACHE.put(key, read, self._owner, counted=(key, read), counted_bytes=read.bytes)
        engine.check(read.private)
        clock.check()
        return read

    def _analyse(self, sql: str, bindings: Bindings | None, engine: Engine, clock: PlanningClock) -> AnalysedQuery:
        catalog = self.catalog(engine)
        query = self._parse(sql, catalog, bindings)  # text -> our own algebra; nothing else goes further
        query = without_reading(query, catalog, self._policy.preview is Preview.SYNTHETIC)
        clock.check()
        with engine.public.one_question(self._account):  # what is free has limits
            private = analyse(query, catalog, engine.public)  # who is protected, how far they reach
        if (open_cohorts := cohorts_of(engine)) is not None:
            private = replace(private, cohorts=paying_cohorts(private, self._policy, open_cohorts.names))
        return AnalysedQuery(inline_parameters(sql, bindings), query, private)

    def _parse(self, sql: str, catalog: Catalog, bindings: Bindings | None) -> Query:
        try:
            return parse(sql, catalog, bindings)
        except UnknownName as refusal:
            if self._rights.complete:
                refusal.undeclared = None
            if refusal.undeclared is None:
                raise
            refused = refusal
        raise with_advice(refused)

    def _price_target(
        self, price: RequestedPrice, options: Options, paying: PayingCohorts | None = None, *, together: bool = False
    ) -> PriceTarget:
        """Read a price; of questions that are asked `together`, the margins of each are read with the workload."""
        price = self._with_default_price(price, options)
        account = None if price.stored_plan is None else price.stored_plan.account
        if account is None and price.share is not None:
            account = self._ledger.account(self._account, paying)
        within = None if together and isinstance(price.within, list) else price.within
        typed = (price.epsilon, within, price.delta)
        target = parse_price_target(
            *typed, options, self._policy.budget, self._cap(price), share=price.share, account=account
        )
        return replace(target, margins_before_data=price.fixed)

    def _with_default_price(self, price: RequestedPrice, options: Options) -> RequestedPrice:
        """Return the price as it was said; where none was, the one that the policy names for the analyst."""
        said = (price.epsilon, price.within, price.share, price.stored_plan, options.epsilon)
        analyst = self._policy.analyst(self._account) if self._account else None
        if analyst is None or any(one is not None for one in said):
            return price
        target = analyst.price_target
        return replace(price, epsilon=target.get("epsilon"), share=target.get("share"))

    def _units(self, tables: set[str]) -> str:
        """Name whom these tables protect."""
        return units_of(table for table in self._shown.tables if fold_name(table.name) in tables)

    def _tables_digest(self, tables: Iterable[str]) -> str:
        """Return the digest of the policy entries of these tables; it does not change while the database is open."""
        names = frozenset(tables)
        if names not in self._digests:
            self._digests[names] = tables_digest(self._policy, names)
        return self._digests[names]

    def _cap(self, price: RequestedPrice) -> PrivacyLoss:
        """Return the most that a margin may cost: the account's cap; where a grant pays or has paid, the dataset's."""
        analyst = self._policy.analyst(self._account) if self._account else None
        whole = self._policy.budget
        if (
            analyst is None
            or price.beyond_own_cap
            or (price.within is not None and self._ledger.has_any_grant(self._account))
        ):
            return PrivacyLoss(whole.epsilon, whole.delta)
        return PrivacyLoss(min(analyst.epsilon, whole.epsilon), min(analyst.delta, whole.delta))


def with_advice(refusal: UnknownName) -> UnknownName:
    """Return the refusal of a name with the way to the owner: the same whether the name exists or not."""
    remedy = f"{refusal.remedy} If your role lacks it, file a request for this question (docs/requests.md)."
    found = UnknownName(refusal.what, refusal.why, remedy)
    found.undeclared = refusal.undeclared
    return found
