"""`ottla demo`: one file per demonstration; `group` has the list of them.

The pipeline: `pipeline` is the story, told with `driver` (the process that is killed), `orders`
(who orders what, and what should come out), `screen` (what one sees), `proof` (what came out), and
`shop`, the pipeline itself.  The broker: `broker`, and `kill`, its last step.
"""
