"""Best labels and their probabilities, for structures that consist of parts."""
