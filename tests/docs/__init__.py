"""Parts of the documents that are drawn from the code, and their tests."""
