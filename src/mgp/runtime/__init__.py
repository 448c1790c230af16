"""What runs a policy on a robot: a server and what it speaks, its limits and its measurements.

`mgp.client` imports from here on machines without torch: whatever needs it is imported by name, not here.
"""
