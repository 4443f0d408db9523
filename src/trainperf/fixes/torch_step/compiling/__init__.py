"""Models that are compiled, or should be: small kernels, recompiling, graph breaks."""
