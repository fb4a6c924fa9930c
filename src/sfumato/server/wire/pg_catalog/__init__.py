"""What psql and drivers ask about tables and types, answered from the policy alone."""
