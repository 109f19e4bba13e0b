"""Jobs of PyTorch that train: as users write them, but that they say how long steps took."""
