"""PostgreSQL: tables of a server, and the bounded copy in a schema of our own beside them."""
