"""The admin client: `config` has its settings."""
