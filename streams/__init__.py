"""How it runs: the catalogue of topics, the topology, the embedded and the Kafka log, the host loop that takes a batch
from input to commit, the worker, and the clock. Decisions are made below in ``frontlog.processors``; here they are
ordered, made durable and handed out.
"""
