package components

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Backup returns a copy of etcd's data. It stops etcd in the meantime.
func (c *Cluster) Backup(tb testing.TB) string {
	tb.Helper()
	backup, err := os.MkdirTemp(c.dir, "backup")
	if err != nil {
		tb.Fatal(err)
	}
	c.Etcd.Signal(tb, syscall.SIGTERM)
	c.Etcd.Wait()
	if err := os.CopyFS(backup, os.DirFS(c.data())); err != nil {
		tb.Fatal(err)
	}
	c.Etcd.Start(tb)
	c.AwaitEtcd(tb)
	c.AwaitAPIServer(tb)
	return backup
}

// Restore replaces etcd's data by a backup, or by nothing if backup is empty, while
// neither etcd nor the apiserver runs. When it returns, both run at the same addresses as
// before.
func (c *Cluster) Restore(tb testing.TB, backup string) {
	tb.Helper()
	c.APIServer.Kill(tb)
	c.Etcd.Kill(tb)
	if err := os.RemoveAll(c.data()); err != nil {
		tb.Fatal(err)
	}
	if backup != "" {
		if err := os.CopyFS(c.data(), os.DirFS(backup)); err != nil {
			tb.Fatal(err)
		}
	}
	c.Etcd.Start(tb)
	c.AwaitEtcd(tb)
	c.APIServer.Start(tb)
	c.AwaitAPIServer(tb)
	if backup == "" {
		c.grant(tb)
	}
}

// data returns the directory of etcd's data.
func (c *Cluster) data() string { return filepath.Join(c.dir, "etcd") }
