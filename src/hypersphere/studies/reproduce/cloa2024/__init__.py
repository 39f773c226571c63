"""Li and Pimentel-Alarcón 2024 (CLOA), what needs no training."""
