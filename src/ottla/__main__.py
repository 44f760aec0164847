"""`python -m ottla` is the `ottla` command."""

from ottla.cli.start import main

main()
