"""Analytic models in the notation of the papers."""
