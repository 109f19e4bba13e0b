"""Training plans in the formats of other tools."""
