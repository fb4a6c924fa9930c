"""Laws of the Spark engine, in one process and one session: `python -m tests.engines.spark` runs them, and more."""
