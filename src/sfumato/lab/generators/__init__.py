"""Made-up people and made-up questions, from a seed."""
