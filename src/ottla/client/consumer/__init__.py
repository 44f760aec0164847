"""The consumer: `config` has its settings."""
