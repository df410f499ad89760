"""The one loop around every solver, with its centre, its checkpoints and its advice."""
