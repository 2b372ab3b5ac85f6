"""One page that shows a schedule: its nest, its steps, its working sets, its machine code and times, and what is computed when."""
