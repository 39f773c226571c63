"""Items of Li and Pimentel-Alarcón 2024 (CLOA)."""
