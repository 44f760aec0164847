"""One file per API, named like its message file.

A handler answers; it does not decide what a log, a coordinator or the controller decide.  Errors
are values here: one bad partition must not fail its neighbors.  `ottla.broker.dispatch` says which
APIs there are and in which versions; a file and a line there add one.
"""
