"""Everything that is done before a charge: text, policy, public tables and, for a share, the ledger decide it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sfumato.accounting.loss import PrivacyLoss
from sfumato.analysis.analyse import analyse
from sfumato.analysis.private_query import PrivateQuery
from sfumato.engines.engine import Engine, Job
from sfumato.errors import BadParameter, Setting, shown
from sfumato.ledger.ledger import Ledger
from sfumato.planning.kept import KeptPlan
from sfumato.planning.plan import Plan
from sfumato.planning.planner import Wish, make_plans, read_wish
from sfumato.planning.question import question, tables_of
from sfumato.planning.spending import chosen
from sfumato.planning.workload import workload_of
from sfumato.policy.canonical import words_about
from sfumato.policy.describing import units_of
from sfumato.policy.policy import Policy, fold
from sfumato.query.parameters import bind, spelled_out
from sfumato.query.parse import parse
from sfumato.query.relation import Options, Query

MOST_TOGETHER = 100
"""So many questions may be asked as one."""


@dataclass(frozen=True, slots=True)
class Price:
    """What was said of the price, as it was typed; `kept` tells the plan of an answer that was given before."""

    epsilon: object = None
    within: object = None
    share: object = None
    delta: object = None
    kept: KeptPlan | None = None
    fixed: bool = field(default=False, kw_only=True)
    """Whether margins are known before the data is read, wherever that is possible, though no margin is named."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question that could be asked, or several: everything that is known before it is charged."""

    sql: str
    wish: Wish
    plan: Plan
    job: Job
    """What the engine prepared, and runs after the charge."""
    question: str
    engine: Engine
    """The snapshot that answers, also if another one takes its place meanwhile."""
    outcomes: tuple[Plan, ...]
    """The plan with the outcome of each question."""
    units: str
    """Whom the private tables that it reads protect."""
    texts: tuple[str, ...]
    """The text of each question, in the order of `outcomes`."""


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """One question, read and judged."""

    written: str
    query: Query
    private: PrivateQuery


class Preparation:
    """What questions of one account are prepared with."""

    def __init__(self, policy: Policy, account: str, ledger: Ledger) -> None:
        self._policy = policy
        self._account = account
        self._ledger = ledger
        self._words: dict[frozenset[str], str] = {}

    def one(self, sql: str, parameters: object, price: Price, key: str | None, engine: Engine) -> Prepared:
        """Read one question and prepare it."""
        return self.alone(self._read(sql, parameters, engine), price, key, engine)

    def alone(self, read: JudgedQuestion, price: Price, key: str | None, engine: Engine) -> Prepared:
        """Prepare one question that was read."""
        wish = self._wish(price, read.query.options)
        plans = make_plans(read.private, wish)  # price and error known; data untouched
        tables = tables_of(read.query.relation)
        words = self._words_about(tables)
        names = [question(read.query, plan, words) for plan in plans]
        place = self._place(plans, names, wish, key, engine) if price.kept is None else price.kept.place(plans)
        job = engine.prepare(plans[place])
        written, units = (read.written,), self._units(tables)
        return Prepared(read.written, wish, plans[place], job, names[place], engine, (plans[place],), units, written)

    def together(self, read: Sequence[JudgedQuestion], price: Price, key: str | None, engine: Engine) -> Prepared:
        """Prepare several questions that are charged as one; what reads public tables alone is asked by itself."""
        for at, one in enumerate(read, 1):
            if one.query.options.epsilon is not None or one.query.options.delta is not None:
                raise BadParameter(
                    f"Question {at} has a price of its own.",
                    "Questions that are asked together have one price.",
                    ("Leave OPTIONS(epsilon, delta) out, and say ", Setting("epsilon"), " for all of them."),
                )
        if len(read) == 1:
            return self.alone(read[0], price, key, engine)
        workload = workload_of([one.private for one in read])
        wish = self._wish(price, Options())
        plans = make_plans(workload.together, wish, tuple(one.outcome for one in workload.questions))
        tables: set[str] = set().union(*(tables_of(one.query.relation) for one in read))
        words = self._words_about(tables)
        names = [json.dumps([question(one.query, plan, words) for one in read]) for plan in plans]
        place = self._place(plans, names, wish, key, engine) if price.kept is None else price.kept.place(plans)
        outcomes = workload.plans(plans[place])
        jobs = [engine.prepare(one) for one in outcomes]  # each outcome has to be one that can be computed
        written, units = tuple(one.written for one in read), self._units(tables)
        return Prepared(
            ";\n".join(written), wish, plans[place], jobs[0], names[place], engine, outcomes, units, written
        )

    def listed(self, texts: object, engine: Engine) -> list[JudgedQuestion]:
        """Read several questions, each once."""
        return [self._read(sql, None, engine) for sql in _questions(texts)]

    def _read(self, sql: str, parameters: object, engine: Engine) -> JudgedQuestion:
        bindings = bind(parameters)
        query = parse(sql, engine.catalog, bindings)  # text -> our own algebra; nothing else goes further
        with engine.public.one_question():  # what is free has limits
            private = analyse(query, engine.catalog, engine.public)  # who is protected, how far they reach
        engine.check(private)
        return JudgedQuestion(spelled_out(sql, bindings), query, private)

    def _wish(self, price: Price, options: Options) -> Wish:
        account = None if price.kept is None else price.kept.account
        if account is None and price.share is not None:
            account = self._ledger.account(self._account)
        typed = (price.epsilon, price.within, price.delta)
        wish = read_wish(*typed, options, self._policy.budget, self._cap(), share=price.share, account=account)
        return replace(wish, fixed=price.fixed)

    def _place(self, plans: tuple[Plan, ...], names: list[str], wish: Wish, key: str | None, engine: Engine) -> int:
        """Return which plan to ask by: one that is paid for, or else what suits the account as it is now."""
        if len(plans) == 1:
            return 0
        known = self._ledger.knows(self._account, names, engine.version, key)
        if known is not None:
            return known
        part = None if wish.share is None else wish.share.part
        account, dataset = self._ledger.account(self._account), self._ledger.account()
        return plans.index(chosen(plans, account, part, epsilon=wish.epsilon, dataset=dataset))

    def _units(self, tables: set[str]) -> str:
        """Name whom these tables protect."""
        return units_of(table for table in self._policy.tables if fold(table.name) in tables)

    def _words_about(self, tables: Iterable[str]) -> str:
        """Return the hash of what the policy says about these tables: it says the same as long as it is open."""
        names = frozenset(tables)
        if names not in self._words:
            self._words[names] = words_about(self._policy, names)
        return self._words[names]

    def _cap(self) -> PrivacyLoss:
        analyst = self._policy.analyst(self._account) if self._account else None
        whole = self._policy.budget
        if analyst is None:
            return PrivacyLoss(whole.epsilon, whole.delta)
        return PrivacyLoss(min(analyst.epsilon, whole.epsilon), min(analyst.delta, whole.delta))


def _questions(texts: object) -> Sequence[str]:
    listed = isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts)
    if not listed or not 1 <= len(texts) <= MOST_TOGETHER:  # type: ignore[arg-type]
        raise BadParameter(
            f"{shown(texts)} is not a list of questions.",
            f"From 1 to {MOST_TOGETHER} questions, each a text, are asked together.",
            'Write for example ["SELECT COUNT(*) FROM visits", "SELECT dept, COUNT(*) FROM visits GROUP BY dept"].',
        )
    return texts  # type: ignore[return-value]
