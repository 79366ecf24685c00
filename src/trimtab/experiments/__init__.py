"""Design of experiments: which settings to measure, in which order and how often, and the analysis of the results.

Everything here is pure: no server, no clock, and randomness only from a number that is given.
"""
