"""`ottla topic`: one file per verb; `group` lists them."""
