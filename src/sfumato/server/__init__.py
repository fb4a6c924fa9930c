"""Ways in over the network: HTTP, a console in the browser, PostgreSQL's wire protocol."""
