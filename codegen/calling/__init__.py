"""From Python objects to the C function and back: arguments checked, or taken in machine code."""
