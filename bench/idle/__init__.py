"""What an idle member costs, with all of its group holding a role: on any ledger, and on Kafka beside its peers."""
