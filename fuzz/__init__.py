"""Coverage-guided fuzzing of everything that reads bytes from strangers.

`python -m fuzz` runs all targets for a while; `python -m fuzz --target wire --seconds 600` runs
one for longer.  A target is a module in `fuzz.targets` with two functions and no fuzzer in it:
`one_input` raises if something is wrong with how the bytes were handled, and `seeds` gives valid
inputs to start from.  `engine` runs a target under Atheris, which owns its process; `runner` starts
that process, counts, and keeps what made it fail.

What was found stays in `fuzz/corpus`, which git ignores.
"""
