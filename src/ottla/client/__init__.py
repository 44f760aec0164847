"""The client side of the protocol.

`basic` is what the commands of the CLI use today: internal, blocking, one request at a time where
that is enough.  The real clients (`ottla.Producer`, `ottla.Consumer`, `ottla.Admin`) will live here
beside it and replace it.  Nothing here may import the broker: the two halves meet in the protocol.
"""
