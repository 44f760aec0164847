"""`ottla pipeline`: one file per verb; `group` has the list of them.

What several verbs share: `shown` is how steps and their progress look.
"""
