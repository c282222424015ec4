"""The values that decisions are made from: our own kinds, and what is read of the cluster."""
