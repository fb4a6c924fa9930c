"""SQL text becomes a small relational algebra of frozen nodes, and nothing else goes further."""
