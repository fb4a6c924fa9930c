"""How the laws of Spark are run: which they are, and a Java that starts quickly and compiles little."""

LAWS = [f"tests/engines/spark/laws_{name}.py" for name in ("session", "copy", "operators", "answers")]
FLAGS = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
