"""`ottla why`: one file per noun; `why` has the list of them, `showing` how findings look.

What is looked at, and how it is judged, is in `ottla.why`, for the console shows it as well.
"""
