"""What lies between the vector that passes work on and the weights that a structure sees."""
