"""Designs a PI controller from a model and a specification: closed-loop poles, root locus, step response."""
