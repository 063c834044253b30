"""What the model is given to read: history that is pair-valid and fits, and the rolling summary."""
