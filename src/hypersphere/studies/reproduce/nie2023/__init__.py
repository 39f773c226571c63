"""Items of Nie et al. 2023."""
