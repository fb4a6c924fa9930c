"""How the laws of Spark are run: which of them always, and a Java that starts quickly and compiles little."""

LAWS = [f"tests/engines/spark/laws_{name}.py" for name in ("operators", "answers", "outside", "session")]
"""In this order: the last ends the session, and a new one would have to compile everything again."""
MORE = [
    f"tests/engines/spark/laws_{name}.py"
    for name in ("inspecting", "copy", "arrivals", "killed", "catalog", "connect", "cohorts")
]
"""They take long: by command."""
CLUSTER = ["tests/engines/spark/laws_cluster.py"]
"""Beside the others, in a process of its own: a Java process has one Spark."""
FLAGS = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
