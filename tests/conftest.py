"""Signals as at a terminal: tests end child processes by them, and a run in the background begins with SIGINT and SIGHUP ignored."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
