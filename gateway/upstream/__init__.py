"""HTTP/1.1 towards a store's server: sockets, connections, strict answers, the gate in between."""
