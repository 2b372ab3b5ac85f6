"""Contractions: register tiles and the micro-kernels that compute them, the order of tiles around these, packed panels."""
