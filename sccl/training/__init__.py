"""Plans of training steps: the option of each collective, and the order of its motifs.

Source: SYNDICATE (NSDI 2023), section 4: options and order are searched together.
"""
