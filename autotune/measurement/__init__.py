"""How a time is taken: samples of a call, warm or cold, on the data of a seed, with their spread and the machine they are of."""
