"""What the system and the interpreter need: whole or mapped files, forks, values made once, quickly or on first use, HTML."""
