"""The claims protocol, a member's side of it (docs/guarantees.md)."""
