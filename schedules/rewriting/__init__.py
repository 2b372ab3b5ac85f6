"""How a nest is taken apart and put together: loops and statements found, replaced, copied, their regions and relations."""
