"""What sqlglot read becomes our own algebra, one file for each part of a question."""
