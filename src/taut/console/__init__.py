"""What a user sees and does while work runs: lines of progress, warnings, Ctrl-C."""
