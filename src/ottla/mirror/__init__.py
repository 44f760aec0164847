"""Copies of topics in another cluster, kept up to date, each record once: what `ottla mirror` runs.

Start with `mirror`, which is the loop, then `session`: what one connection to both clusters does.
`selection`, `offset_map` and `journal` are pure: which topics, which offset there is which here,
and what the target remembers of it.

One rule carries the rest: *what was copied and how far it was copied are written in one
transaction*, so that no crash can come between the two.  ADR 21 says where it is written, and why.
"""
