"""Claims, played: one log, judged record by record, and what its promises are."""
