"""frontlog: a polite, auditable web crawler whose only truth is an append-only log of Avro events.

A person meets it through the command line (``frontlog``), the HTTP API and the console; the rooms beneath, from
``frontlog.replay`` down to ``frontlog.avro``, each import only what stands below them.
"""

__version__ = "0.1.0"
