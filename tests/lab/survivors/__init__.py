"""Changes of `lbcf.core` that no test notices, and why that is right: `make survivors`.

mutmut (`[tool.mutmut]` in pyproject.toml) changes each expression of each function in turn, passes
over what mypy rejects, and runs the tests that call the function. A mutant that lives shows
something that no test asks, a needless line, or a change that changes nothing. Those that live are
listed in living.txt, each below its reason; what no test asks yet stands there, too, and goes first.

It leaves out properties, other decorated functions, and what runs at import: also what a test
reckons there, such as the parameters that it is given.

The protocol's own mutants, whole guards taken out, are another thing: `make sweep`.
"""
