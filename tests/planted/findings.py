"""Bugs to plant again: past faults, each as the change that would bring it back."""

from tests.planted.bug import Bug, planned

_EVEN = "tests/statistical/test_evenness.py"
_ENFORCED = "tests/paths/test_enforcement.py"

FINDINGS: tuple[Bug, ...] = (
    planned(
        "public rows hold sums of doubles",
        "neighbours",
        ("analysis/joins.py", "    check_exact(other.flow, join.at)\n", ""),
    ),
    planned(
        "public rows are computed again in the statement",
        "neighbours",
        ("analysis/joins.py", "    check_exact(other.flow, join.at)\n", ""),
        (
            "engines/sql/flow.py",
            "            return _kept(flow, writing, ordered)\n",
            "            again = {f'c{at}': item.scalar for at, item in enumerate(flow.columns)}\n"
            "            alias = writing.alias()\n"
            "            rows = projected(flow.source, writing.tables, again, writing.dialect)\n"
            "            return Frame(f'({rows}) AS {alias}', _addressed(flow, alias))\n",
        ),
    ),
    planned(
        "public rows that a row meets are not cut at what was priced",
        _ENFORCED,
        (
            "engines/sql/flow.py",
            'select(listed, kept.rows.relation, where=f"{quoted(RANK)} <= {kept.most}")',
            "select(listed, kept.rows.relation)",
        ),
    ),
    planned(
        "rows of a person are not cut at what was priced",
        _ENFORCED,
        (
            "engines/sql/flow.py",
            'tests = [] if read.max_rows_per_unit is None else [f"{quoted(RANK)} <= {read.max_rows_per_unit}"]',
            "tests: list[str] = []",
        ),
    ),
    planned(
        "values are not clipped at what was priced",
        _ENFORCED,
        (
            "engines/sql/scalar.py",
            "        return clipped(value, scalar.facts, dialect) if is_stored(scalar) else value\n",
            "        return value\n",
        ),
    ),
    planned(
        "a person's long averages go through doubles",
        "neighbours",
        (
            "engines/sql/fold.py",
            "        case Aggregation.SUM | Aggregation.AVG if facts.kind is Kind.INTEGER:\n",
            "        case Aggregation.AVG if facts.kind is Kind.INTEGER and not _short(facts):\n"
            '            double = aggregate(Aggregation.SUM, f"({sql})::DOUBLE")\n'
            '            return [f"({double})::HUGEINT", aggregate(Aggregation.COUNT, sql)]\n'
            "        case Aggregation.SUM | Aggregation.AVG if facts.kind is Kind.INTEGER:\n",
        ),
    ),
    planned(
        "a person's distinct sums go through doubles",
        "neighbours",
        (
            "engines/sql/fold.py",
            "        case Aggregation.SUM | Aggregation.AVG if facts.kind is Kind.INTEGER:\n",
            "        case Aggregation.SUM if facts.kind is Kind.INTEGER and folded.distinct and not _short(facts):\n"
            '            double = aggregate(Aggregation.SUM, f"({sql})::DOUBLE")\n'
            '            return [f"({double})::HUGEINT"]\n'
            "        case Aggregation.SUM | Aggregation.AVG if facts.kind is Kind.INTEGER:\n",
        ),
    ),
    planned(
        "zero has a sign",
        "neighbours",
        (
            "engines/sql/fold.py",
            'return f"CASE WHEN {sql} = {zero} THEN {zero} ELSE {sql} END"',
            "return sql",
        ),
        (
            "engines/duckdb/texts.py",
            'return f"CAST(({arguments[0]} + 0::DOUBLE) AS VARCHAR)"  # -0.0 + 0.0 is 0.0',
            'return f"CAST({arguments[0]} AS VARCHAR)"',
        ),
    ),
    planned(
        "cells of a person are ranked by a badly mixed hash",
        _EVEN,
        (
            "engines/sql/sampling_order.py",
            "return [dialect.hash48(concatenated(parts)), ",
            "return [dialect.hash48(parts[-1]), ",
        ),
    ),
    planned(
        "nested operations double what they hold",
        "tests/paths/test_cost_of_expressions.py",
        ("engines/duckdb/numbers.py", "    if leaf:\n", "    if leaf or sql:\n"),
    ),
    planned(
        "CSV is read by the engine, which skips what it cannot read",
        "files",
        (
            "engines/duckdb/loading.py",
            "    with registered(connection, pa.RecordBatchReader.from_batches(schema, loading.batches())) "
            "as records:\n",
            "    paths = [str(path) for path in loading._files.paths]\n"
            "    try:\n"
            "        read = connection.read_csv(\n"
            "            paths, all_varchar=True, header=True, sep=',', quotechar='\"', escapechar='\"',\n"
            "            ignore_errors=True, null_padding=True, strict_mode=False, auto_detect=False,\n"
            "            columns={name: 'VARCHAR' for name in loading._files_header()},\n"
            "        )\n"
            "        found = read.to_arrow_table().select(list(loading.wanted))\n"
            "    except duckdb.Error:\n"
            "        raise EngineFailed() from None\n"
            "    loading.count = found.num_rows\n"
            "    with registered(connection, found.cast(schema)) as records:\n",
        ),
        (
            "engines/duckdb/loading.py",
            "    def batches(self) -> Iterator[pa.RecordBatch]:\n",
            "    def _files_header(self) -> list[str]:\n"
            "        import csv\n"
            "        with self._files.paths[0].open(encoding='utf-8-sig', newline='') as stream:\n"
            "            return next(csv.reader(stream))\n\n"
            "    def batches(self) -> Iterator[pa.RecordBatch]:\n",
        ),
    ),
    planned(
        "rows whose date cannot be read are dropped",
        "files",
        (
            "engines/sql/staging.py",
            "select(kept, source, order_by=order)",
            'select(kept, source, where="p.c0 IS NOT NULL", order_by=order)',
        ),
    ),
    planned(
        "rows that got lost are not missed",
        "files",
        (
            "engines/sql/staging.py",
            "select(kept, source, order_by=order)",
            'select(kept, source, where="p.c0 IS NOT NULL", order_by=order)',
        ),
        ("engines/sql/bounded_copy.py", "    if not whole:\n", "    if not whole and table.public:\n"),
    ),
    planned(
        "text that is not UTF-8 ends the reading of all",
        "files",
        (
            "engines/duckdb/untyped_columns.py",
            "    except UnicodeDecodeError:\n        return None\n",
            "    finally:\n        pass\n",
        ),
    ),
    planned(
        "texts are not cut",
        "tests/engines/test_untyped_columns.py",
        (
            "engines/sql/column.py",
            'return f"left({text}, {column.length})"  # counted in characters',
            "return text",
        ),
    ),
    planned(
        "a number that names a person is rounded",
        "files",
        (
            "engines/duckdb/column.py",
            "CASE WHEN regexp_full_match({value}, '{_WHOLE_NUMBER}') THEN CAST({whole_number} AS VARCHAR) END",
            "CAST(TRY_CAST(round(TRY_CAST({value} AS DOUBLE)) AS HUGEINT) AS VARCHAR)",
        ),
    ),
    planned(
        "a changed file is a new snapshot, wanted or not",
        "tests/paths/test_snapshots.py",
        (
            "engines/snapshots.py",
            "return policy.refresh is Refresh.ON_CHANGE and source_changed(policy, copying)",
            "return source_changed(policy, copying)",
        ),
    ),
    planned(
        "a question is also the policy's other words",
        "tests/paths/test_snapshots.py",
        (
            "prepare.py",
            "digest = with_cohorts(self._tables_digest(tables), read.private.cohorts)\n            private",
            "digest = repr(self._policy)\n            private",
        ),
    ),
    planned(
        "a question that was read outlives its snapshot",
        "tests/paths/test_remembered.py",
        ("prepare.py", "        key = self._owner, engine.version, asked\n", "        key = self._owner, asked\n"),
        ("prepare.py", "            _QUERY_CACHE.forget(self._owner)\n", "            pass\n"),
    ),
    planned(
        "a unit may be called removed_rows",
        "tests/policy/test_reading.py tests/paths/test_names.py",
        (
            "policy/tables.py",
            "        if fold_name(words) == REMOVED_ROWS:\n",
            "        if fold_name(words) is None:\n",
        ),
    ),
    planned(
        "sums of a ledger grow without end",
        "tests/accounting/test_filter.py tests/ledger/test_long_numbers.py",
        (
            "accounting/filter.py",
            "return total if total.denominator <= MAX_DENOMINATOR else Fraction(ceil(total * RENYI_UNITS), "
            "RENYI_UNITS)",
            "return total",
        ),
    ),
    planned(
        "prices may have any number of digits",
        "tests/test_exact.py tests/ledger/test_long_numbers.py",
        (
            "exact.py",
            "if abs(number.numerator) <= _MAX_TYPED_INTEGER and number.denominator <= _MAX_TYPED_INTEGER:",
            "if number is not None:",
        ),
    ),
    planned(
        "keys are shown as they are",
        "tests/release/test_escaping.py",
        (
            "release/rendering/escaping.py",
            'return "".join(letter if letter.isprintable() else _REPLACED for letter in text)',
            "return text",
        ),
        ("release/rendering/escaping.py", "    return html.escape(escape_unprintable(text))\n", "    return text\n"),
    ),
    planned(
        "a forked child reads on its parent's connection",
        "tests/paths/test_forks.py",
        (
            "engines/duckdb/reader.py",
            "        if os.getpid() != self._process:\n            with self._lock:",
            "        if os.getpid() < 0:\n            with self._lock:",
        ),
    ),
    planned(
        "an empty selection says nothing",
        "tests/release/test_notes.py",
        (
            "release/notes.py",
            "if group.selection is not None and not found.keys)}",
            "if group.selection is not None and found.keys is None)}",
        ),
    ),
    planned(
        "the library of the cipher is loaded with the house",
        "tests/paths/test_entropy.py",
        (
            "randomness/source.py",
            "import os\nimport threading\n",
            "import os\nimport threading\n\nimport cryptography.hazmat.primitives.ciphers\n",
        ),
    ),
    planned(
        "free answers may be of any length",
        "tests/paths/test_free_limits.py",
        (
            "engines/duckdb/reader.py",
            "                if len(found) > MAX_PUBLIC_RESULT_ROWS or size > MAX_PUBLIC_RESULT_CHARS:\n",
            "                if size < 0:\n",
        ),
    ),
    planned(
        "the owner's word about the clock is damage",
        "tests/ledger/test_clock.py",
        ("ledger/state.py", "row.time < state.time and row.kind != RowKind.CLOCK", "row.time < state.time"),
    ),
    planned(
        "a ledger on PostgreSQL lies in one schema for all",
        "tests/ledger/test_postgres.py",
        (
            "ledger/postgres_store.py",
            'return _Table(schema, f"{schema}.{_NAME}")\n\n\ndef',
            'return _Table("public", f"public.{_NAME}")\n\n\ndef',
        ),
    ),
    planned(
        "names fold beyond A to Z",
        "tests/paths/test_letters.py tests/query/test_names.py",
        ("policy/policy.py", "    return name.translate(_ASCII)\n", "    return name.lower()\n"),
    ),
    planned(
        "every noisy number of an extreme has the whole level",
        "tests/statistical/test_coverage.py",
        (
            "release/intervals/confidence.py",
            "ends = form.ends(tail / count)  # Bonferroni: the events need not be independent",
            "ends = form.ends(min(tail * 8, Fraction(99, 100)))",
        ),
    ),
    planned(
        "a ratio may lie anywhere",
        "tests/release/test_computed_bars.py tests/statistical/test_coverage.py",
        (
            "release/intervals/forms.py",
            "self._possible(over, under, tail, joint), (self.least, self.most))",
            "self._possible(over, under, tail, joint), (-np.inf, np.inf))",
        ),
    ),
    planned(
        "what one table cuts is told of another",
        "tests/planning/test_truncation.py",
        (
            "planning/notes/truncation.py",
            "untold = {read.table: read.has_no_removed_table for read in cut}",
            "untold = dict([(read.table, read.has_no_removed_table) for read in cut][:1])",
        ),
    ),
    planned(
        "a level that cuts is taken for one that does not",
        "tests/engines/test_candidate_bounds.py",
        (
            "engines/sql/bounding/candidates.py",
            "one.selected == len(one.candidates.thresholds) - 1",
            "one.selected >= len(one.candidates.thresholds) - 2",
        ),
    ),
    planned(
        "what people have above a level is added up below it",
        "tests/engines/test_candidate_bounds.py",
        ("engines/sql/bounding/selection.py", "part = part_at_bound(index, ", "part = whole or part_at_bound(index, "),
    ),
)
