"""The commands of the command line; each imports its code when it runs, so that help is fast."""
