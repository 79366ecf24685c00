"""Figures and pages: pure functions of stored runs."""
