"""Bounds for models that others have trained: what `taut.certify` consists of.

A reader makes machines of a model, each one convex problem with its losses, its space and the
model's own point. The primal value is computed at that point, a lower bound at a feasible dual
point: the model's own coefficients, the slopes of its losses, or what a few passes find.
"""
