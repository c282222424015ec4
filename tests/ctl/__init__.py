"""`kubectl lbcf`: what it says of made-up clusters, and on a real API server."""
