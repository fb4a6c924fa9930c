"""Apache Superset over the wire protocol: run by the Python of `tests.clients.matrix` or `tests.clients.recording`.

Superset itself runs, without its browser: a connection, a dataset, charts as Explore sends them, the samples of a
public table, and SQL Lab with its estimate. Argument: an address without its scheme. It prints the version, then one
line per step.
"""

import logging
import os
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

CONFIG = """
SECRET_KEY = "{key}"
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db"
FEATURE_FLAGS = {{"ESTIMATE_QUERY_COST": True}}
WTF_CSRF_ENABLED = False
CACHE_CONFIG = DATA_CACHE_CONFIG = FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = {{
    "CACHE_TYPE": "SimpleCache"
}}
"""
EXTRA = '{"engine_params": {"connect_args": {"options": "-c sfumato.epsilon=1"}}, "cost_estimate_enabled": true}'


def application(folder: str) -> Any:
    """Return Superset with an empty metadata database."""
    (Path(folder) / "superset_config.py").write_text(CONFIG.format(key="k" * 40, folder=folder))
    os.environ.update(SUPERSET_HOME=folder, SUPERSET_CONFIG_PATH=f"{folder}/superset_config.py")
    logging.disable(logging.CRITICAL)
    return import_module("superset.app").create_app()


def main(address: str) -> bool:
    """Make a connection, two datasets and charts; return whether every step worked."""
    worked = True
    print(f"Apache Superset {version('apache-superset')} with SQLAlchemy {version('sqlalchemy')}", flush=True)
    with tempfile.TemporaryDirectory() as folder, application(folder).app_context():
        superset = import_module("superset")
        import_module("flask_appbuilder").Model.metadata.create_all(superset.db.engine)
        database_class = import_module("superset.models.core").Database
        table_class = import_module("superset.connectors.sqla.models").SqlaTable
        flask = import_module("flask")
        owner = superset.appbuilder.sm.add_user(
            "owner", "A", "B", "owner@example.org", superset.appbuilder.sm.add_role("Admin"), None, "0"
        ) or superset.appbuilder.sm.find_user("owner")
        flask.g.user = owner
        connection = database_class(
            database_name="clinic",
            sqlalchemy_uri=f"postgresql+psycopg2:{address}",
            extra=EXTRA,
        )
        connection.set_sqlalchemy_uri(f"postgresql+psycopg2:{address}")
        superset.db.session.add(connection)
        superset.db.session.commit()

        def dataset(name: str) -> Any:
            made = table_class(table_name=name, schema="public", database=connection, catalog=None)
            superset.db.session.add(made)
            superset.db.session.flush()
            made.fetch_metadata()
            superset.db.session.commit()
            return made

        visits, staff = dataset("visits"), dataset("staff")

        def chart(table: Any, **more: Any) -> Any:
            asked = {
                "columns": ["dept"], "metrics": ["count"], "filter": [], "extras": {}, "is_timeseries": False,
                "granularity": None, "from_dttm": None, "to_dttm": None, "row_limit": 10000, "orderby": [], **more,
            }  # fmt: skip
            found = table.query(asked)
            if found.error_message:
                raise RuntimeError(found.error_message)
            return found.df.shape

        datetime = import_module("datetime").datetime
        average = {"expressionType": "SIMPLE", "column": {"column_name": "cost", "type": "DOUBLE PRECISION"},
                   "aggregate": "AVG", "label": "cost"}  # fmt: skip
        january = {"granularity": "day", "from_dttm": datetime(2024, 1, 1), "to_dttm": datetime(2024, 1, 29)}
        weekly = {"columns": [], "is_timeseries": True, "extras": {"time_grain_sqla": "P1W"}}
        bar = {"metrics": ["count", average], "orderby": [["count", False]]}

        def lab(sql: str) -> Any:
            return connection.get_df(sql, schema="public").shape

        def estimate() -> Any:
            spec, sql = connection.db_engine_spec, "SELECT dept, COUNT(*) FROM visits WHERE age > 30 GROUP BY dept"
            found = spec.estimate_query_cost(connection, None, "public", sql)
            return spec.query_cost_formatter(found)

        def tables() -> Any:
            return sorted(one[0] for one in connection.get_all_table_names_in_schema(None, "public"))

        steps: dict[str, Callable[[], Any]] = {
            "schemas": lambda: sorted(connection.get_all_schema_names(catalog=None)),
            "tables": tables,
            "columns": lambda: [(one.column_name, one.type, bool(one.is_dttm)) for one in visits.columns],
            "a bar chart": lambda: chart(visits, **bar),
            "sorted and cut otherwise": lambda: chart(visits, **bar | {"orderby": [["count", True]], "row_limit": 50}),
            "with a time range": lambda: chart(visits, **january),
            "a line by week": lambda: chart(visits, **january | weekly),
            "a line by week and series": lambda: chart(
                visits, **january | weekly | {"columns": ["dept"], "series_columns": ["dept"], "series_limit": 2,
                                              "series_limit_metric": "count"}
            ),
            "a filter": lambda: chart(
                visits,
                filter=[{"col": "dept", "op": "IN", "val": ["er", "icu"]}, {"col": "age", "op": ">=", "val": 18}],
            ),
            "a big number": lambda: chart(visits, columns=[]),
            "samples of a public table": lambda: chart(
                staff, columns=["id", "name", "since", "seen", "active"], metrics=None, row_limit=100
            ),
            "values of a filter box": lambda: list(staff.values_for_column("dept", limit=100)),
            "SQL Lab": lambda: lab("SELECT dept, COUNT(*) AS n FROM visits WHERE age > 30 GROUP BY dept"),
            "SQL Lab, a public table": lambda: lab("SELECT * FROM public.staff\nLIMIT 1001"),
            "SQL Lab, estimate": estimate,
        }  # fmt: skip
        for name, step in steps.items():
            try:
                print(f"{name}: {step()}", flush=True)
            except Exception as error:
                worked = False
                print(f"{name}: FAILED {type(error).__name__}: {str(error)[:700]}", flush=True)
    return worked


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1]) else 1)
