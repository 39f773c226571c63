"""The explorer: a page that shows objectives, embeddings and runs while one drags."""
