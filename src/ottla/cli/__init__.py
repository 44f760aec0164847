"""The `ottla` command: one file per command, and nothing that is not about talking to people.

Start with `main`, which finds commands by name and turns errors into one line and a hint.  Nothing
may import this package; commands import what they need inside themselves, so that `ottla --help`
stays quick.
"""
