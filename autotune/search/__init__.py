"""What to measure next: searchers behind one ask/tell interface, and the models that the Bayesian one learns from."""
