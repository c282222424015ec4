"""What is deployed, and the programs that belong to it."""
