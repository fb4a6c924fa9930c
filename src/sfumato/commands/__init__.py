"""The verbs of the command line; each imports what it runs when it runs, so that help comes at once."""
