"""The disposable processes that build candidates, or check and time them, and how the tuner speaks with them."""
