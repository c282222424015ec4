"""The lives of records and load balancers: which step comes next, given what is known."""
