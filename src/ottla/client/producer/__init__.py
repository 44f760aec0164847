"""The producer: `config` has its settings."""
