"""Programs of MSCCL: model, lowering, rules, and JSON."""
