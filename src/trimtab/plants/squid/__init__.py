"""Squid as a plant."""
