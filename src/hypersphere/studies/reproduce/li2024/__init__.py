"""Li et al. 2024."""
