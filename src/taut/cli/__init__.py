"""The command `taut`: files in, models and answers out.

`main` has one parser for each command; a command is a module with `NAME`, `HELP`, `EXAMPLE`,
`add_arguments` and `run`, and a line in `main`. What a command does with a kind of labels, the
tasks know (`tasks`): how its files are read, which estimator learns from them, what measures its
answers and how they are written.
"""
