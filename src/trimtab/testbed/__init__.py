"""Private instances of real servers, confined, for experiments and tests.

A testbed is a context manager: it makes a temporary directory, control groups and swap as far as this machine
allows, writes down what it holds, starts the server and removes everything again. What a killed process leaves
is removed by the next testbed, or by `reap.clean`.
"""
