"""Questions that none of the papers answered."""
