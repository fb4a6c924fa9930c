"""A PrivateQuery and a loss become a Plan: what is measured, with which noise, at which price."""
