"""Durable charges: what was released, at which cost, in a chain that a second program can verify."""
