"""Optional parts: each is loaded only when it is used, and no core room imports it."""
