"""What is said: one ``.avsc`` per record with a ``doc`` on each field, the event classes, the codec that turns them into
bytes and back, and the rules that keep old readers and old logs readable. The lowest room: it knows bytes and nothing
else, and it holds the errors and enums that every other room speaks in.
"""
