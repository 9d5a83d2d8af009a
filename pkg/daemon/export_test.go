package daemon

// MaxConnections returns the limit of connections, for tests.
func (d *Daemon) MaxConnections() int { return d.server.MaxConnections() }
