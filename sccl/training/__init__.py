"""Plans of training steps: which options collectives take, and when their motifs start.

Source: SYNDICATE (NSDI 2023), section 4: options and order are searched together.
"""
