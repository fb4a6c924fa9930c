"""How the laws of Spark are run: which of them always, and a Java that starts quickly and compiles little."""

LAWS = [f"tests/engines/spark/laws_{name}.py" for name in ("session", "operators", "answers")]
MORE = [f"tests/engines/spark/laws_{name}.py" for name in ("copy", "arrivals", "killed")]
"""They take long: by command."""
FLAGS = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
