"""Results shown: drawings, charts, pages and text. It reads values and computes none."""
