"""What ledgers in files of one host share."""
