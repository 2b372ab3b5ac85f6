"""What the system and the interpreter need: whole files, forks, values made or known quickly or on first use, HTML."""
