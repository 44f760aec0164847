"""`ottla txn`: see transactions, and end those that nobody else ends."""
