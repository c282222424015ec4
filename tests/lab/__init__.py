"""Programs that people run: `make help` says what each shows, and how long it takes."""
