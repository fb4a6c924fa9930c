"""A dataset as tools of a language model, which spends the budget of one analyst."""
