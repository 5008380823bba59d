"""Orders in a topic, shared out among workers that are killed and frozen; who has what, shown live, and what came of it."""
