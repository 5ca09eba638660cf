"""Who decides: one file a machine (URLs, leases, politeness, robots, canonical form, scope, recrawl, duplicates, ...), each
with ``decide``, which reads tables and returns events, and ``apply``, which alone writes them. Nothing here touches a
socket, a file, a clock, chance or the environment, so a recorded log always folds to the same tables.
"""
