"""Koromilas et al. 2024, what needs no training."""
