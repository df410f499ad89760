"""What is on disk, and whether it is what it was."""
