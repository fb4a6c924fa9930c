"""The scheme of folders and catalogs that Spark reads."""

from sfumato.policy.schemes import SourceScheme

SPARK = SourceScheme(
    "spark",
    names=r"catalog(\.\w+){0,2}",  # a catalog, and a database of it; everything else is a folder
    backend="sfumato.engines.spark.opening:BACKEND",
    install="sfumato[spark]",
    can_draft=True,
    can_tune=False,
)
