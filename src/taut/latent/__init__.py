"""Latent parts: imputing and solving in turn."""
