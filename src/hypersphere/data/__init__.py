"""Data an encoder learns from or is judged by; every loader checks what it reads."""
