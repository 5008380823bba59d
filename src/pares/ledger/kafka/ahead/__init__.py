"""Reading ahead from a topic: the client that fetches, and what it has fetched of each partition."""
