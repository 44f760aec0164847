"""`ottla group`: one file per verb; `group` has the list of them.

What several verbs share: `sight` is a group at one moment, `lags` how far it is behind, `changes`
what is new since the last look, `shown` how all of it looks.
"""
