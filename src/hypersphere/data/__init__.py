"""Data for training and evaluating encoders; every loader checks its files."""
