"""Tools of our own: derived pages, the documentation site, pinned versions.

Each is a module to run, `python -m tools.<name>`, usually through the Makefile.
"""
