"""The small language between SQL and engines: facts, total scalars, flows of rows, and SQL lowered into them."""
