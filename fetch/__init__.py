"""What touches the web and the bodies: the address guard, the resolver, the transport, decoding under a cap, the fetch
pipeline with its gates in order, and the WARC archive. The only room with web sockets.
"""
