"""Finds the difference equation that a running server follows: excitation, least squares, order selection."""
