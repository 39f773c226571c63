"""Speed and memory, measured beside the bare matrix products, the plain form and the peers."""
