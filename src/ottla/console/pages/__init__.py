"""The pages, one module for each subject; `app` has their addresses."""
