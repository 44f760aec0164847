"""What something waits for, since when, who causes it and what to do: for `ottla why` and console.

For each noun (`group`, `topic`, `transaction`, `pipeline`) one module looks at the cluster, with a
client that blocks, and makes a *sight*; what is seen is judged in the modules named `..._waits` and
`group_progress`, without a broker.  Every judgment is a `Finding` (`findings`).  How findings are
shown is not known here.
"""
