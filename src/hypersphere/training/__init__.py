"""Training: one recipe, any objective, on text, images and synthetic worlds."""
