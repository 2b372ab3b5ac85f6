"""Texts that change only on purpose: what each directive makes of a small nest, and the default schedule of each operator.

`python -m tests.goldens --update` writes them anew; the change is then read as a diff, like any other.
"""
