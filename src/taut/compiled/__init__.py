"""How code is compiled, and what compiled code is made of: registers, rows, chance."""
