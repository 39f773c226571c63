"""Our value and gradient beside those of other libraries, on one process and on several."""
