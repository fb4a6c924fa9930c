"""PostgreSQL's wire protocol, version 3, in front of the gate."""
