import mgp  # noqa: F401  sets OpenMP's waiting policy, before torch is loaded
