"""All values of C: at which ones to solve, and what that proves for those between."""
