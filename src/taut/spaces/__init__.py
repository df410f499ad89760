"""What sees w: how weights become potentials, and statistics weights."""
