"""Output of the command line: answers with error bars, prices, budgets and an interactive prompt."""
