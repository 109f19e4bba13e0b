"""Execution plans of MSCCL++: model, lowering, and the rules of its executor."""
