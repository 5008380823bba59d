"""What must hold while real members are played, one file a promise. None of them knows how members work inside."""
