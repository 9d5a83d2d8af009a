// Package servertest has what several tests of the server need.
package servertest

import (
	"encoding/binary"
	"net"
	"os"
)

// LeftOver replaces the file by a socket on which nothing listens, in one step.
func LeftOver(path string) error {
	l, err := TakeOver(path)
	if err != nil {
		return err
	}
	return l.Close()
}

// TakeOver replaces the file by another socket, in one step.
func TakeOver(path string) (net.Listener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path + ".new", Net: "unix"})
	if err != nil {
		return nil, err
	}
	return l, os.Rename(path+".new", path)
}

// Message returns a message of gRPC with its prefix.
func Message(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(payload))), payload...)
}
