"""What the stages of a program do: their axes, windows, the roles of their loops, and where intermediates could be computed."""
