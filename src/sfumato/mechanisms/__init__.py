"""Value to noisy value: each mechanism with its theorem, its event and its margin."""
