"""From the definitions of a program to its loop nest."""
