"""Real numbers known to lie between two exact ones: the only ones that decide an outcome or bound a loss."""
