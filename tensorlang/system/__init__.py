"""What the system and the interpreter need: files that are whole or not there, forks, values on first use; and the HTML of displays."""
