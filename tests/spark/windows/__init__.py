"""Every window in which a failure could lose or repeat records, with real kills."""
