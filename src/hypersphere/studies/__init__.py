"""Studies: measurements of objectives beside known results."""
