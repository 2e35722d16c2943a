"""
Partners that misbehave on purpose, as servers on a local port, for demos, tests and trying out settings.

They import nothing of the worker's own parts, so that what they log is an account from outside.
"""
