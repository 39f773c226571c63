"""Items of Koromilas et al. 2024."""
