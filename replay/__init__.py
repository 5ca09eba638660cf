"""How to look back: rebuild the tables from the log, verify digests and the hash chain, explain a URL with its causes, ask
what other rules would have decided, export, and copy a log. One module a command; it reads logs and never crawls.
"""
