"""Bugs to plant: each is a small change that somebody could make, and that takes away a promise."""

from tests.planted.bug import Bug, planned
from tests.planted.feature_bugs import FEATURE_BUGS

_REAL_NOISE = """import numpy as np

        words = np.frombuffer(source.read(8 * exact.size), dtype="<u8")
        share = ((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53 - 0.5
        noise = np.rint(-float(self.scale) * np.sign(share) * np.log1p(-2 * np.abs(share))).astype(np.int64)"""

BUGS: tuple[Bug, ...] = (
    planned(
        "Laplace noise × 0.8",
        "samples",
        ("mechanisms/laplace.py", "noise = DiscreteLaplace(self.scale)", "noise = DiscreteLaplace(self.scale * 4 / 5)"),
    ),
    planned(
        "Gaussian noise × 0.8",
        "samples",
        (
            "mechanisms/gaussian.py",
            "noise = DiscreteGaussian(self.sigma_squared)",
            "noise = DiscreteGaussian(self.sigma_squared * 16 / 25)",
        ),
    ),
    planned(
        "floating-point noise, rounded",
        "samples",
        ("mechanisms/laplace.py", "noise = DiscreteLaplace(self.scale).draw(exact.size, source)", _REAL_NOISE),
    ),
    planned(
        "noise from a generator of its own",
        "samples",
        (
            "mechanisms/laplace.py",
            "noise = DiscreteLaplace(self.scale).draw(exact.size, source)",
            "from sfumato.randomness.source import system_source\n\n"
            "        noise = DiscreteLaplace(self.scale).draw(exact.size, system_source())",
        ),
    ),
    planned(
        "the same seed after a fork",
        "books",
        ("randomness/source.py", "return self._owner != os.getpid()", "return False"),
        ("randomness/source.py", "os.register_at_fork(after_in_child=_SYSTEM.forget)", "pass"),
    ),
    planned(
        "sensitivity of a sum halved",
        "replay",
        (
            "planning/sensitivities.py",
            "return norms.total(low, high, 1, contribution.rows, neighbours)",
            "return norms.total(low, high, 1, max(1, contribution.rows // 2), neighbours)",
        ),
    ),
    planned(
        "noise for half the sensitivity",
        "replay",
        (
            "planning/noise.py",
            "Laplace(one.sensitivity.l1, one.sensitivity.l1 / epsilon, neighbours)",
            "Laplace(one.sensitivity.l1, Fraction(one.sensitivity.l1, 2) / epsilon, neighbours)",
        ),
    ),
    planned(
        "shared noise for one row of a person",
        "replay",
        ("planning/noise.py", "for each in part), need.moved_rows, epsilon", "for each in part), 1, epsilon"),
    ),
    planned(
        "numbers are not clipped",
        "replay",
        (
            "engines/sql/column.py",
            "return Range(grid.step, grid.least, grid.greatest, clipped=True)",
            "return unbounded(grid.step)",
        ),
    ),
    planned(
        "clipping after summing",
        "replay",
        (
            "engines/sql/column.py",
            "return Range(grid.step, grid.least, grid.greatest, clipped=True)",
            "return unbounded(grid.step)",
        ),
        (
            "engines/sql/group.py",
            "    return dialect.aggregate_if("
            "dialect.aggregate(one.function, value, one.argument.facts, one.distinct), where)",
            """    if one.function is Aggregation.SUM:
        facts, value = one.argument.facts, used.names[one.argument]
        total = dialect.aggregate_if(f"sum({value})", where)
        return f"least(greatest({total}, {facts.low * 1000}), {facts.high * 1000})"
    return dialect.aggregate_if(dialect.aggregate(one.function, value, one.argument.facts, one.distinct), where)""",
        ),
    ),
    planned(
        "clipping a copy: LEAST and GREATEST are computed and not used",
        "replay",
        (
            "engines/sql/logic.py",
            'Operator.LEAST: self._named("least")',
            "Operator.LEAST: lambda scalar, texts: texts[0]",
        ),
        (
            "engines/sql/logic.py",
            'Operator.GREATEST: self._named("greatest")',
            "Operator.GREATEST: lambda scalar, texts: texts[0]",
        ),
        (
            "engines/sql/group.py",
            "value = in_bounds(one.argument, value, dialect)",
            "in_bounds(one.argument, value, dialect)",
        ),
    ),
    planned(
        "no cap on groups",
        "replay",
        (
            "engines/sql/group.py",
            "used, bound_groups = _used(group, plan.all_outputs), limit.bound_groups and bool(group.keys)",
            "used, bound_groups = _used(group, plan.all_outputs), False",
        ),
    ),
    planned(
        "rows per person off by one",
        "replay",
        (
            "engines/sql/bounded_copy.py",
            'subquery(ranked, "n"), where=f"nth <= {most}")',
            'subquery(ranked, "n"), where=f"nth <= {most} + 1")',
        ),
        (
            "engines/sql/flow.py",
            "tests = [] if read.max_rows_per_unit is None else",
            "tests = [] if read.max_rows_per_unit is None or read.max_rows_per_unit else",
        ),
    ),
    planned(
        "rows chosen by their position",
        "replay",
        (
            "engines/sql/bounded_copy.py",
            "{row_hash('c.own', values, dialect)} AS first",
            "{dialect.hash128('CAST(r.rowid AS VARCHAR)')} AS first",
        ),
    ),
    planned(
        "rows chosen among everybody's",
        "replay",
        (
            "engines/sql/bounded_copy.py",
            'rank = dialect.row_number(["id"], ["draw"])',
            'rank = dialect.row_number([], ["draw"])',
        ),
    ),
    planned(
        "people of a key counted by their rows",
        "replay",
        (
            "engines/sql/group.py",
            "        if self.sole or not self.alike:\n"
            '            return dialect.aggregate_if("count(*)" if self.sole else',
            '        if self.sole or self:\n            return dialect.aggregate_if("count(*)" if self else',
        ),
    ),
    planned(
        "rows that select a key taken for people",
        "replay",
        (
            "planning/noise.py",
            "each, most = delta / selections(needs), noisy.sensitivity.linf",
            "each, most = delta / selections(needs), 1",
        ),
    ),
    planned(
        "threshold of keys off by one",
        "samples",
        (
            "mechanisms/optimal_selection.py",
            "units = np.maximum(key_counts(values) - (self.min_units - 1), 0)",
            "units = np.maximum(key_counts(values) - (self.min_units - 1), 0) + (key_counts(values) > 0)",
        ),
    ),
    planned(
        "threshold of counts off by one",
        "exact",
        (
            "mechanisms/threshold.py",
            "reach = self.threshold - self.min_count + 1 - self.sensitivity\n",
            "reach = self.threshold - self.min_count + 2 - self.sensitivity\n",
        ),
    ),
    planned(
        "keys that nobody declared are shown",
        "database",
        ("release/publish.py", "if plan.selection is None:", "if plan.selection is None or exact.units is not None:"),
    ),
    planned(
        "AVG with the exact number of rows",
        "tests/paths/test_noise_on_every_number.py",
        (
            "release/publish.py",
            "noisy = joint.release(np.stack([integer_answers(column) for column in columns], axis=1), source)",
            "exact = np.stack([integer_answers(column) for column in columns], axis=1)\n"
            "    noisy = exact if len(columns) == 2 else joint.release(exact, source)",
        ),
    ),
    planned(
        "a measurement drawn twice and averaged",
        "replay",
        (
            "release/publish.py",
            "noisy = mechanism.release(values, source)",
            "noisy = (mechanism.release(values, source) + mechanism.release(values, source)) // 2",
        ),
    ),
    planned(
        "the receipt tells the bits of the real draw",
        "database",
        (
            "release/publish.py",
            "    groups = tuple(\n        selected[group.group.label]",
            "    source = Metered(source)\n    groups = tuple(\n        selected[group.group.label]",
        ),
        (
            "release/publish.py",
            "return NoisyResult(groups, _bits(plan, groups, source))",
            "return NoisyResult(groups, source.bits)",
        ),
    ),
    planned(
        "error bars too narrow",
        "database",
        (
            "release/intervals/confidence.py",
            "return [None if value is None else (int(value) - margin, int(value) + margin)",
            "margin //= 2\n    return [None if value is None else (int(value) - margin, int(value) + margin)",
        ),
    ),
    planned(
        "error bars of averages too narrow",
        "database",
        (
            "release/intervals/ratio.py",
            "return np.asarray(tail_of_two(distance, *laws,",
            "return np.asarray(tail_of_two(2 * distance, *laws,",
        ),
        ("release/intervals/ratio.py", "turned = tail_of_two(distance, Law", "turned = tail_of_two(2 * distance, Law"),
    ),
    planned(
        "delta of key selection not quoted",
        "replay",
        (
            "planning/noise.py",
            "loss = PrivacyLoss(sum(epsilons, Fraction(0)), delta if selections(needs) else Fraction(0))",
            "loss = PrivacyLoss(sum(epsilons, Fraction(0)), Fraction(0))",
        ),
    ),
    planned(
        "delta dropped by the accountant",
        "exact",
        ("accounting/approximate.py", "return core, within + delta", "return core, within"),
    ),
    planned(
        "a vector is charged as one count",
        "tests/planning/test_noise.py",
        (
            "planning/noise.py",
            "return Repeated(Laplace(1, mechanism.scale, mechanism.neighbours).event, moved.l1)",
            "return Laplace(1, mechanism.scale, mechanism.neighbours).event",
        ),
    ),
    planned(
        "shares of the budget sum to more than 1",
        "replay",
        ("planning/budget_split.py", "Fraction(part, sum(parts))", "Fraction(part, max(parts))"),
    ),
    planned(
        "Gaussian noise planned at twice the loss",
        "exact",
        ("planning/concentrated_loss.py", "    exact = Fraction(bound)\n", "    exact = 2 * Fraction(bound)\n"),
    ),
    planned(
        "replace counted as add-remove",
        "replay",
        (
            "sensitivity/norms.py",
            "sides = 2 if as_neighbours(neighbours) is Neighbours.REPLACE else 1",
            "sides = 1",
        ),
    ),
    planned(
        "keys of a replaced person counted once",
        "exact",
        (
            "mechanisms/keys.py",
            "return 2 * groups_per_unit if neighbours is Neighbours.REPLACE else groups_per_unit",
            "return groups_per_unit",
        ),
    ),
    planned(
        "refund on error",
        "books",
        (
            "ledger/state.py",
            "changed = replace(state, unanswered=rest)",
            "changed = replace(state, unanswered=rest)\n"
            "            if row.kind == RowKind.FAILED:\n"
            "                empty = {name: Filter(cap.epsilon, cap.delta) for name, cap in state.accounts.items()}\n"
            "                changed = replace(changed, accounts=empty)",
        ),
        (
            "ledger/ledger.py",
            "ending = Ending(self._store_outcome, lambda row: self._forget(row.sequence))",
            "def refund(row: Row) -> None:\n"
            "            failed = Row(0, RowKind.FAILED.value, 0, same=row.same, about=row.sequence)\n"
            "            self._done(lambda book: book.add(failed))\n"
            "            self._forget(row.sequence)\n\n"
            "        ending = Ending(self._store_outcome, refund)",
        ),
    ),
    planned(
        "charge after the answer",
        "books",
        (
            "database.py",
            "            stored = self.payer.charge_and_publish(",
            "            asked.engine.run(asked.job)\n            stored = self.payer.charge_and_publish(",
        ),
    ),
    planned(
        "answers kept across analysts",
        "books",
        ("ledger/chain.py", "length_prefixed(account, question, version)", 'length_prefixed("", question, version)'),
    ),
    planned(
        "answers kept across versions of the data",
        "books",
        (
            "stored_answer.py",
            "plan.event, plan.loss, asked.engine.version, shared)",
            'plan.event, plan.loss, "1", shared)',
        ),
    ),
    planned(
        "an analyst's own budget is not charged",
        "books",
        ("ledger/state.py", "    names = {DATASET, account}\n", "    names = {DATASET}\n"),
    ),
    planned(
        "the dataset is not charged for analysts",
        "books",
        ("ledger/state.py", "    names = {DATASET, account}\n", "    names = {account}\n"),
    ),
    planned(
        "the cap of the budget is ignored",
        "books",
        ("accounting/filter.py", "        if after._holds():\n", "        if after is not None:\n"),
    ),
    planned(
        "the version of the data is a digest of it",
        "books",
        (
            "engines/snapshots.py",
            "version = known.version if known is not None and same_data and same_people else fresh_id(self._random)",
            'version = __import__("hashlib").sha256(b"".join(path.read_bytes() for path in '
            '__import__("sfumato.engines.duckdb.file_listing", fromlist=["source_files"])'
            ".source_files(self._policy.source))).hexdigest()",
        ),
    ),
    planned(
        "the price depends on the data",
        "fuzzing",
        (
            "prepare.py",
            "        found = self._plans_of(read, target, tables, alone=alone)\n",
            "        ((rows,),) = engine._reader.rows(f'SELECT count(*) FROM {engine._tables[\"visits\"]}')\n"
            "        if read.private.groups:\n"
            "            lower = (target.epsilon or 1) / (1 + rows)\n"
            "            target = __import__('dataclasses').replace(target, epsilon=lower)\n"
            "        found = self._plans_of(read, target, tables, alone=alone)\n",
        ),
    ),
    planned(
        "a NULL raises",
        "fuzzing",
        ("engines/sql/statements.py", "[(row[at] or 0) if at < len(row)", "[row[at] if at < len(row)"),
    ),
    planned(
        "a division by zero raises",
        "fuzzing",
        (
            "engines/sql/numbers.py",
            "            return self._result(divided(first, divisor, type), scalar, type)\n",
            "            bad = f\"CASE WHEN {second} = 0 THEN error('division by zero')::{type} ELSE {second} END\"\n"
            "            return self._result(divided(first, bad, type), scalar, type)\n",
        ),
    ),
    planned(
        "a cast of text raises",
        "fuzzing",
        (
            "engines/duckdb/texts.py",
            'return f"TRY_CAST({_cut_out(arguments[0], INTEGER)} AS BIGINT)"',
            'return f"CAST({arguments[0]} AS BIGINT)"',
        ),
    ),
    planned(
        "too many groups are refused by name",
        "fuzzing",
        (
            "engines/sql/statements.py",
            "    units = integer_answers([row[-1] for row in rows])\n",
            "    if len(found) > 6:\n"
            "        raise QueryTooLarge(f'There are too many groups, such as {found[0]}.', 'A.', 'B.')\n"
            "    units = integer_answers([row[-1] for row in rows])\n",
        ),
    ),
    planned(
        "a join lets different people meet",
        "replay",
        (
            "analysis/joins.py",
            "condition = same if written is None else _join_conditions(same, written)",
            "condition = same if written is None else written",
        ),
    ),
    planned(
        "a join with a public table is taken to multiply nothing",
        "replay",
        ("analysis/joins.py", "items, keys, max(1, rows.max_rows_per_key), rows)", "items, keys, 1, rows)"),
        (
            "engines/sql/flow.py",
            'select(listed, kept.rows.relation, where=f"{quoted(RANK)} <= {kept.most}")',
            "select(listed, kept.rows.relation)",
        ),
    ),
    planned(
        "a join of one person's rows is taken to multiply nothing",
        "replay",
        ("analysis/joins.py", "rows = first.rows if once else first.rows * second.rows", "rows = first.rows"),
    ),
    planned(
        "an unbounded sum is accepted",
        "books",
        (
            "language/facts.py",
            "return self.kind is Kind.INTEGER and self.declared_low and self.declared_high",
            "return self.kind is Kind.INTEGER",
        ),
    ),
    planned(
        "a query may loosen the policy",
        "books",
        ("analysis/groups.py", "    if wanted > most:\n", "    if wanted > most * 1000:\n"),
    ),
    *FEATURE_BUGS,
)
