"""What the operating system and the interpreter need: files that are whole or not there, forks, imports and values on first use."""
