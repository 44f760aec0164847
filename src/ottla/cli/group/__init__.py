"""`ottla group`: one file per verb; `group` has the list of them, `lags` what several show."""
