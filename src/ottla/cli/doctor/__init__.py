"""`ottla doctor`: one file per thing that can be examined; `group` has the list of them."""
