"""The console: a page in the browser for analysts, and one for the owner."""
