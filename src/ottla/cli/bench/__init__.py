"""`ottla bench`: what a broker can do, measured from outside; `group` lists the commands."""
