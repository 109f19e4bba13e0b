"""TACCL: routes, then orders, then exact times, within a communication sketch."""
