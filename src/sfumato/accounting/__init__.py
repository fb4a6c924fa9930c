"""Events to privacy loss: what a sequence of releases reveals, as tight as is known."""
