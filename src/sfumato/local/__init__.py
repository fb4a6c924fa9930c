"""Local privacy: each person adds the noise on a device of their own, and whoever collects sees noise only."""
