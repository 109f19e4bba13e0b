"""PyTorch training jobs as users write them, which also record the times of their steps."""
