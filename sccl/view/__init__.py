"""Pictures of results: where ranks are drawn, and charts. It reads values and computes none."""
