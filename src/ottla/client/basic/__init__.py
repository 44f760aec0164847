"""A small blocking client for the commands of the CLI; internal, and made to be replaced.

It has no consumer groups, no idempotence, no transactions of its own and no retries: what fails is
raised, once, as an exception of `ottla.errors`.  Start with `client`, which finds brokers and asks
them; `topics` administrates, `writer` produces, `reader` fetches.  Whoever writes an application
wants the real clients, not this one.
"""
