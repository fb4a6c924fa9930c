"""What the command line shows: answers with their error bars, prices, budgets, and a prompt to ask at."""
