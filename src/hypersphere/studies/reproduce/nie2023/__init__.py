"""Nie et al. 2023, what needs no training."""
