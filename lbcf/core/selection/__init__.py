"""Which records a group should have, and what has to be written for that."""
