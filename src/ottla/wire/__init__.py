"""The Kafka protocol: bytes to messages and back.

Start with one message, say `messages.join_group`: the class is the type, the documentation and the
codec.  Then `schema`, the words in which it is declared, and `codec`, which encodes and decodes.
Between them, `compiler` turns a declaration and a version into a plan, and `interpreter` executes
plans, in readable Python; `_interpreter.pyx` is its compiled twin.  `primitives` has the varints
and lengths that both need.

`frame` cuts frames from bytes as they arrive, `header` knows what precedes each message, and
`registry` finds the messages of an API key.  `messages` has one file for each API; `stored` has
what is written into internal topics and next to segments, declared in the same words.

What a peer sent is never trusted: each length is checked against the bytes that are left before
anything is made from it, and whatever is wrong raises `WireError`, nothing else.  Record batches
pass through as bytes, uncopied: `ottla.records` knows what is in them.

Never import here: clocks, sockets, threads, files, or `ottla.records`.
"""
