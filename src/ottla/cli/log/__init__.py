"""`ottla log`: looking into the files of a data directory, without a broker.

`group` lists the commands; `segments` reads batches and records, `others` the files beside them.
"""
