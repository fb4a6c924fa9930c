"""Broken policies: a name, an edit of the example, and what the refusal must say (key, line, remedy)."""

Edit = tuple[str, str]

_AGE = 'age  = { type = "integer", bounds = [0, 120] }'
_COST = 'cost = { type = "decimal", bounds = [0, 5000], step = 0.01 }'
_DEPT = 'dept = { type = "text", values = ["er", "icu", "surgery"] }'
_UNIT = 'unit = "patient_id"'
_BUDGET = "[budget]\nepsilon = 3\ndelta = 1e-6\nquery_delta = 1e-9\n"
_AT = "tables.visits.columns."


def _age(text: str) -> Edit:
    return (_AGE, f"age = {text}")


def _cost(text: str) -> Edit:
    return (_COST, f"cost = {text}")


def _dept(text: str) -> Edit:
    return (_DEPT, f"dept = {text}")


def _lines(before: str, table: str) -> Edit:
    return ("[tables.staff]\npublic = true\n", f"{before}[tables.staff]\n{table}\n")


BROKEN: tuple[tuple[str, Edit, tuple[str, ...]], ...] = (
    # the file
    ("not toml", ("epsilon = 3", "epsilon = "), ("is not TOML", "line 7", "Correct that line")),
    ("text without quotes", ('"clinic"\n', "clinic\n"), ("is not TOML", "line 1")),
    ("a key twice", ("epsilon = 3\n", "epsilon = 3\nepsilon = 4\n"), ("is not TOML", "overwrite")),
    ("a table twice", ("[tables.staff]", "[tables.visits]"), ("is not TOML", "twice")),
    ("an impossible date", _age('{ type = "date", bounds = [2023-02-30, 2024-01-01] }'), ("is not TOML", "line 18")),
    ("a number without end", ("epsilon = 3", "epsilon = 1e99999999999999999999"), ("thousands of digits", "Remove")),
    ("an integer without end", ("epsilon = 3", "epsilon = " + "1" * 5000), ("thousands of digits", "Remove")),
    ("lists without end", ("epsilon = 3", "epsilon = " + "[" * 9000 + "]" * 9000), ("lists in lists", "Remove")),
    # snapshots and texts
    ("unknown refresh", ("neighbours =", 'refresh = "always"\nneighbours ='), ("refresh (line 4)", '"on-change"')),
    ("length of a number", _age('{ type = "integer", length = 9 }'), (_AT + "age.length (line 18)", "Only texts")),
    ("length zero", _dept('{ type = "text", length = 0 }'), (_AT + "dept.length (line 19)", "from 1 to")),
    (
        "a key longer than length",
        _dept('{ type = "text", length = 2, values = ["er", "icu"] }'),
        (_AT + "dept.values[1] (line 19)", "more than length = 2"),
    ),
    # keys
    ("unknown key", ("neighbours =", "neighbors ="), ("neighbors (line 4)", "not a key", "Did you mean neighbours?")),
    ("key in capitals", ("[budget]", "[Budget]"), ("Budget (line 6)", "Did you mean budget?")),
    (
        "unknown budget key",
        ("query_delta", "query_detla"),
        ("budget.query_detla (line 9)", "Did you mean query_delta?"),
    ),
    (
        "unknown table key",
        ("rows_per_unit", "row_per_unit"),
        ("tables.visits.row_per_unit (line 13)", "rows_per_unit?"),
    ),
    ("unknown column key", _age('{ type = "integer", bound = [0, 1] }'), (_AT + "age.bound (line 18)", "mean bounds?")),
    ("unknown analyst key", ("epsilon = 1\n", "epsilons = 1\n"), ("analysts.research.epsilons (line 26)", "epsilon?")),
    (
        "a key nobody knows",
        ('name = "clinic"', 'name = "clinic"\nzzz = 1'),
        ("zzz (line 2)", "The keys here are: name"),
    ),
    (
        "column beside columns",
        ("groups_per_unit = 3", "visit = { }"),
        ("tables.visits.visit", "declared below columns"),
    ),
    # what must be there
    ("no source", ('source = "parquet:data"\n', ""), ("source is missing", "where the data is", "Add source")),
    ("no budget", (_BUDGET, ""), ("budget is missing", "no default", "Add [budget]")),
    ("no epsilon", ("epsilon = 3\n", ""), ("budget.epsilon (line 6) is missing", "Add epsilon")),
    ("no delta", ("delta = 1e-6\n", ""), ("budget.delta (line 6) is missing", "delta = 0")),
    ("no unit", (_UNIT + "\n", ""), ("tables.visits.unit (line 11) is missing", 'unit = "rows"', "public = true")),
    ("no rows per unit", ("rows_per_unit = 20\n", ""), ("rows_per_unit (line 11) is missing", "Add rows_per_unit = N")),
    ("no type", _age("{ bounds = [0, 1] }"), (_AT + "age.type (line 18) is missing", "Add type")),
    (
        "no step",
        _cost('{ type = "decimal", bounds = [0, 1] }'),
        (_AT + "cost.step (line 20) is missing", "step = 0.01"),
    ),
    ("no step for keys", _cost('{ type = "decimal", values = [1] }'), (_AT + "cost.step (line 20) is missing",)),
    ("no epsilon for an analyst", ("epsilon = 1\n", ""), ("analysts.research.epsilon (line 25) is missing",)),
    ("private without unit", _lines("", "public = false"), ("tables.staff.unit (line 22) is missing",)),
    # numbers
    ("epsilon zero", ("epsilon = 3", "epsilon = 0"), ("budget.epsilon (line 7) is 0", "above zero")),
    ("epsilon negative", ("epsilon = 3", "epsilon = -0.5"), ("budget.epsilon (line 7) is -0.5", "positive")),
    ("epsilon infinite", ("epsilon = 3", "epsilon = inf"), ("budget.epsilon (line 7)", "finite number")),
    ("epsilon nan", ("epsilon = 3", "epsilon = nan"), ("budget.epsilon (line 7)", "finite number")),
    ("epsilon in words", ("epsilon = 3", 'epsilon = "three"'), ('budget.epsilon (line 7) is "three"', "0.1")),
    ("epsilon true", ("epsilon = 3", "epsilon = true"), ("budget.epsilon (line 7) is true", "finite number")),
    ("epsilon of 50 digits", ("epsilon = 3", "epsilon = 1e50"), ("budget.epsilon (line 7) is 1E+50", "40 digits")),
    ("delta one", ("delta = 1e-6", "delta = 1"), ("budget.delta (line 8) is 1", "below 1", "1e-6")),
    ("delta negative", ("delta = 1e-6", "delta = -1e-6"), ("budget.delta (line 8)", "at least 0 and below 1")),
    ("query delta too large", ("1e-9", "1e-5"), ("budget.query_delta (line 9) is 0.00001", "leave it out")),
    ("query delta without delta", ("delta = 1e-6", "delta = 0"), ("budget.query_delta (line 9)", "above budget.delta")),
    ("analyst epsilon zero", ("epsilon = 1\n", "epsilon = 0\n"), ("analysts.research.epsilon (line 26) is 0",)),
    ("analyst delta", ("epsilon = 1\n", "epsilon = 1\ndelta = 1.5\n"), ("analysts.research.delta (line 27) is 1.5",)),
    ("rows zero", ("rows_per_unit = 20", "rows_per_unit = 0"), ("rows_per_unit (line 13) is 0", "whole number from 1")),
    ("rows half", ("rows_per_unit = 20", "rows_per_unit = 2.5"), ("rows_per_unit (line 13) is 2.5", "whole number")),
    ("rows in quotes", ("rows_per_unit = 20", 'rows_per_unit = "20"'), ('rows_per_unit (line 13) is "20"', "quotes")),
    ("groups negative", ("groups_per_unit = 3", "groups_per_unit = -3"), ("groups_per_unit (line 14) is -3",)),
    # words and shapes
    ("name not text", ('name = "clinic"', "name = 7"), ("name (line 1) is 7", "in quotes")),
    ("name of a path", ('name = "clinic"', 'name = "../clinic"'), ("name (line 1) cannot be used as a name", "Rename")),
    ("name empty", ('name = "clinic"', 'name = ""'), ("name (line 1) is a name of 0 characters",)),
    ("neighbours unknown", ('"add-remove"', '"add_remove"'), ("neighbours (line 4)", "Did you mean add-remove?")),
    ("neighbours bounded", ('"add-remove"', '"bounded"'), ("neighbours (line 4)", 'Did you mean "replace"?')),
    ("budget not a table", (_BUDGET, "budget = 3\n"), ("budget (line 6) is 3", "TOML table")),
    (
        "tables a list",
        ("[tables.staff]\npublic = true", "[[tables.staff]]\npublic = true"),
        ("tables.staff (line 22)",),
    ),
    ("column a word", _age('"int"'), (_AT + 'age (line 18) is "int"', '{ type = "integer" }')),
    ("type of another system", _age('{ type = "bigint" }'), (_AT + "age.type (line 18)", 'Did you mean "integer"?')),
    ("type misspelt", _age('{ type = "integr" }'), (_AT + "age.type (line 18)", "Did you mean integer?")),
    ("public in quotes", _lines("", 'public = "yes"'), ('tables.staff.public (line 23) is "yes"', "true or false")),
    ("unique a number", _age('{ type = "integer", unique = 1 }'), (_AT + "age.unique (line 18) is 1", "true or false")),
    # where things lie
    ("source without scheme", ('"parquet:data"', '"data/v.parquet"'), ("source (line 2)", "Did you mean parquet:?")),
    ("source of another kind", ('"parquet:data"', '"mysql://h/d"'), ('source (line 2) starts with "mysql:"', "csv:")),
    ("source empty", ('"parquet:data"', '"parquet:"'), ("source (line 2) names no path", "parquet:data")),
    ("source as url", ('"parquet:data"', '"csv://data"'), ("source (line 2) names no path", "plain path")),
    (
        "source half a url",
        ('"parquet:data"', '"postgresql:db"'),
        ("source (line 2) is not a postgresql URL", "//user@"),
    ),
    (
        "ledger as source",
        ('"sqlite:clinic.ledger"', '"parquet:x"'),
        ('ledger (line 3) starts with "parquet:"', "sqlite:"),
    ),
    ("ledger misspelt", ('"sqlite:clinic.ledger"', '"sqlite3:x"'), ("ledger (line 3)", "Did you mean sqlite?")),
    # units
    ("unit misspelt", (_UNIT, 'unit = "patientid"'), ("tables.visits.unit (line 12)", "Did you mean patient_id?")),
    ("unit not text", (_UNIT, "unit = 5"), ("tables.visits.unit (line 12) is 5", "in quotes")),
    ("unit a decimal", (_UNIT, 'unit = "cost"'), ("tables.visits.unit (line 12)", "type decimal", "integer, text")),
    ("unit rows many", (_UNIT, 'unit = "rows"'), ("tables.visits.rows_per_unit (line 13) is 20", "one row")),
    (
        "unit rows and column",
        (
            _UNIT + "\nrows_per_unit = 20\ngroups_per_unit = 3\n\n[tables.visits.columns]",
            'unit = "rows"\n[tables.visits.columns]\nRows = { type = "text" }',
        ),
        ("tables.visits.unit (line 12)", "Rename"),
    ),
    ("unit in no table", (_UNIT, 'unit = "ordes.k via age = o"'), ("tables.visits.unit (line 12)", 'no table "ordes"')),
    (
        "unit in no column",
        (_UNIT, 'unit = "staff.k via age = o"'),
        ("tables.visits.unit (line 12)", '"staff" declares no'),
    ),
    ("unit from no column", (_UNIT, 'unit = "staff.k via agee = o"'), ("tables.visits.unit", "Did you mean age?")),
    ("unit of a path to itself", (_UNIT, 'unit = "visits.patient_id via age = age"'), ("is not the unit of",)),
    ("unit of unequal types", (_UNIT, 'unit = "visits.age via dept = age"'), ("of type text with", "one type")),
    ("public with unit", _lines("", 'public = true\nunit = "rows"'), ("tables.staff.unit (line 24)", "Remove unit")),
    ("public with rows", _lines("", "public = true\nrows_per_unit = 2"), ("tables.staff.rows_per_unit (line 24)",)),
    # bounds and steps
    (
        "bounds reversed",
        _age('{ type = "integer", bounds = [120, 0] }'),
        (_AT + "age.bounds (line 18) is reversed", "Write bounds = [0, 120]."),
    ),
    (
        "bounds of one",
        _age('{ type = "integer", bounds = [120] }'),
        (_AT + "age.bounds (line 18) is [120]", "[LOW, HIGH]"),
    ),
    (
        "bounds not a list",
        _age('{ type = "integer", bounds = 120 }'),
        (_AT + "age.bounds (line 18) is 120", "brackets"),
    ),
    ("bounds of text", _dept('{ type = "text", bounds = ["a", "b"] }'), (_AT + "dept.bounds (line 19)", "values")),
    ("bounds of booleans", _age('{ type = "boolean", bounds = [0, 1] }'), (_AT + "age.bounds (line 18)", "Leave out")),
    (
        "bounds of half an integer",
        _age('{ type = "integer", bounds = [0, 1.5] }'),
        (_AT + "age.bounds[1] (line 18) is 1.5",),
    ),
    (
        "bounds in words",
        _age('{ type = "integer", bounds = ["0", 1] }'),
        (_AT + "age.bounds[0] (line 18)", "whole number"),
    ),
    (
        "bounds infinite",
        _cost('{ type = "decimal", step = 1, bounds = [0, inf] }'),
        (_AT + "cost.bounds[1] (line 20)",),
    ),
    (
        "bounds beyond 64 bits",
        _cost('{ type = "decimal", step = 1e-9, bounds = [0, 1e10] }'),
        ("64 bits", "step larger"),
    ),
    (
        "a date as text",
        _age('{ type = "date", bounds = ["2024-01-01", 2024-01-02] }'),
        ("without quotes", "2024-02-29"),
    ),
    ("a timestamp for a date", _age('{ type = "date", bounds = [2024-01-01T00:00:00, 2024-01-02] }'), ("a TOML date",)),
    ("a date for a timestamp", _age('{ type = "timestamp", bounds = [2024-01-01, 2024-01-02] }'), ("T12:00:00",)),
    (
        "an offset",
        _age('{ type = "timestamp", bounds = [2024-01-01T00:00:00Z, 2024-01-02T00:00:00Z] }'),
        ("with an offset", "without an offset"),
    ),
    (
        "bounds off the grid",
        _cost('{ type = "decimal", step = 0.1, bounds = [0.05, 1] }'),
        (_AT + "cost.bounds (line 20)", "not a whole number of steps of 0.1", "Write 0 instead of 0.05"),
    ),
    (
        "high off the grid",
        _cost('{ type = "decimal", step = "1/3", bounds = [0, 0.5] }'),
        ('Write "2/3" instead of 0.5',),
    ),
    ("step zero", _cost('{ type = "decimal", step = 0, bounds = [0, 1] }'), (_AT + "cost.step (line 20) is 0", "0.01")),
    (
        "step negative",
        _cost('{ type = "decimal", step = -0.1 }'),
        (_AT + "cost.step (line 20) is -0.1", "between 1e-18 and 1e18"),
    ),
    ("step of an integer", _age('{ type = "integer", step = 5 }'), (_AT + "age.step (line 18) is 5", "Leave out step")),
    # public keys
    ("values empty", _dept('{ type = "text", values = [] }'), (_AT + "dept.values (line 19) is empty", "leave out")),
    (
        "values twice",
        _dept('{ type = "text", values = ["a",\n"b",\n"a"] }'),
        (_AT + "dept.values[2] (line 21) repeats",),
    ),
    ("values of another type", _dept('{ type = "text", values = ["a", 1] }'), (_AT + "dept.values[1] (line 19) is 1",)),
    ("values of integers in quotes", _age('{ type = "integer", values = ["1"] }'), (_AT + "age.values[0] (line 18)",)),
    ("values outside", _age('{ type = "integer", bounds = [0, 9], values = [10] }'), ("values[0] (line 18)", "Widen")),
    (
        "values off the grid",
        _cost('{ type = "decimal", step = 0.5, values = [0.2] }'),
        ("values[0] (line 20)", "steps of 0.5"),
    ),
    ("values too long", _dept(f'{{ type = "text", values = ["{"x" * 1001}"] }}'), ("values[0] (line 19)", "1001 char")),
    ("values as a word", _dept('{ type = "text", values = "er" }'), (_AT + "dept.values (line 19)", "table.column")),
    (
        "values of no table",
        _dept('{ type = "text", values = "stuff.dept" }'),
        ('no table "stuff"', "Did you mean staff?"),
    ),
    (
        "values of a private table",
        _dept('{ type = "text", values = "visits.age" }'),
        ("not a public table", "List the keys"),
    ),
    (
        "values with NUL",
        _dept('{ type = "text", values = ["\\u0000"] }'),
        ("values[0] (line 19)", "databases cannot store"),
    ),
    # names
    ("columns alike", (_AGE, 'PATIENT_ID = { type = "text" }'), (_AT + "PATIENT_ID (line 18)", "not case-sensitive")),
    ("tables alike", ("[tables.staff]", "[tables.Visits]"), ("tables.Visits (line 22)", "same name")),
    (
        "analysts alike",
        ("epsilon = 1\n", "epsilon = 1\n[analysts.Research]\nepsilon = 1\n"),
        ("analysts.Research (line 27)",),
    ),
    ("column name too long", ("age  =", f"{'a' * 64} ="), ("(line 18)", "64 characters", "1 to 63")),
    ("column name empty", ("age  =", '"" ='), ("(line 18)", "0 characters")),
    ("column name with a quote", ("age  =", "'a\"b' ="), ("(line 18) cannot be used as a name", "Rename the column")),
    ("column name with a blank", ("age  =", '" age" ='), ("(line 18) cannot be used as a name",)),
    ("column name with a newline", ("age  =", '"a\\nge" ='), ("(line 18) cannot be used as a name", "printable")),
    (
        "table name with a dot",
        ("[tables.staff]", '[tables."a.b"]'),
        ('tables."a.b" (line 22) cannot be used as a name', "table"),
    ),
)
