"""A driver and its callers in two network namespaces, and what a partition does."""
