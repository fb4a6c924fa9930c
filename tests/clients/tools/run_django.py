"""Django over the wire protocol: run by the Python of `tests.clients.matrix` or `tests.clients.recording`.

Argument: an address without its scheme. It prints the version, then one line per step: `inspectdb`, and the models that
it wrote.
"""

import datetime
import io
import re
import sys
import types
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit


def configure(address: str) -> None:
    """Set Django up without a project."""
    parts = urlsplit(f"postgresql:{address}")
    database = {
        "ENGINE": "django.db.backends.postgresql", "HOST": parts.hostname, "PORT": parts.port, "USER": parts.username,
        "PASSWORD": parts.password, "NAME": parts.path[1:],
        "OPTIONS": {"options": "-c sfumato.epsilon=1 -c sfumato.preview=empty"},
    }  # fmt: skip
    import_module("django.conf").settings.configure(DATABASES={"default": database}, USE_TZ=True, TIME_ZONE="UTC")
    import_module("django").setup()


def inspected() -> Any:
    """Return the models of both tables, as `inspectdb` writes them, as a module."""
    module = types.ModuleType("clinic_models")
    sys.modules["clinic_models"] = module
    for table in ("visits", "staff"):
        written = io.StringIO()
        import_module("django.core.management").call_command("inspectdb", table, stdout=written)
        text = written.getvalue()
        print(f"inspectdb {table}: {'FAILED ' + text[:300] if 'Unable to inspect' in text else text.count('models.')}")
        text = re.sub(r"(?m)^( +)managed = False$", r"\1managed = False\n\1app_label = 'clinic'", text)
        exec(compile(text, "clinic_models", "exec"), module.__dict__)  # noqa: S102  (the models are what is tested)
    return module


def main(address: str) -> bool:
    """Inspect and ask; return whether every step worked."""
    configure(address)
    print(f"Django {version('django')} with psycopg {version('psycopg')}", flush=True)
    models, functions = import_module("django.db.models"), import_module("django.db.models.functions")
    made = inspected()
    visits, staff = made.Visits.objects, made.Staff.objects
    day = datetime.date(2024, 1, 8)
    instant = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)

    def by_dept() -> Any:
        return visits.values("dept").annotate(n=models.Count("*"), cost=models.Avg("cost"))

    steps: dict[str, Callable[[], Any]] = {
        "count": lambda: visits.count() > 0,
        "values and annotate": lambda: len(by_dept().order_by("dept")),
        "the same, sorted and cut": lambda: len(by_dept().order_by("-n")[:2]),
        "filter by date": lambda: len(visits.filter(day__gte=day).values("dept").annotate(n=models.Count("age"))),
        "filter by list": lambda: visits.filter(dept__in=["er", "icu"]).count() > 0,
        "aggregate": lambda: sorted(visits.aggregate(models.Sum("cost"), models.Avg("age"))),
        "truncate dates": lambda: len(
            visits.annotate(week=functions.TruncWeek("day")).values("week").annotate(n=models.Count("*"))
        ),
        "extract": lambda: len(visits.values("day__month").annotate(n=models.Count("*"))),
        "case": lambda: (
            visits.aggregate(old=models.Count(models.Case(models.When(age__gte=60, then=models.Value(1)))))["old"]
            is not None
        ),
        "public rows": lambda: len(staff.filter(seen__lt=instant).values_list("id", "name").order_by("id")[:5]),
        "exists": lambda: staff.filter(id=3).exists(),
        "in bulk, by portions": lambda: len(list(staff.values_list("id").iterator(chunk_size=4))),
        "explain": lambda: by_dept().explain().splitlines()[0][:6],
    }
    worked = True
    for name, step in steps.items():
        try:
            print(f"{name}: {step()}")
        except Exception as error:
            worked = False
            print(f"{name}: FAILED {type(error).__name__}: {str(error)[:500]}")
    return worked


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1]) else 1)
