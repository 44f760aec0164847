"""`ottla why`: one file per noun, in which the command looks; `why` has the list of them.

What was seen is judged elsewhere, without a broker (`group_waits`, `group_progress`), and every
judgment is a `Finding` (`findings`), which knows how it is shown.
"""
