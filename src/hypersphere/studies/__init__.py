"""Studies: what an objective does, measured beside what is known."""
