"""Solvers that serve comparison: published methods on the same oracles, certified the same way."""
