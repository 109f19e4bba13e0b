"""The enforcer: process groups, recordings and plans in real jobs of PyTorch."""
