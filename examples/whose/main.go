// Command whose prints namespace/pod/container of each program that starts in a container of
// the node. It must run as root, in the PID and network namespaces of the node.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/pkg/client"
)

// execs calls started with the PID of each process that executes a program. The kernel reports
// them on a netlink socket: see linux/connector.h and linux/cn_proc.h.
func execs(started func(pid int)) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	if err != nil {
		return fmt.Errorf("opening the process connector: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	const group, listen, exec, events = 1, 1, 2, unix.NLMSG_HDRLEN + 20 // after struct cn_msg
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: group}); err != nil {
		return fmt.Errorf("listening to the process connector: %w", err)
	}
	request := binary.NativeEndian.AppendUint32(nil, events+4)
	for _, word := range []uint32{unix.NLMSG_DONE, 0, 0, group, 1, 0, 0, 4, listen} { // CN_IDX_PROC, CN_VAL_PROC
		request = binary.NativeEndian.AppendUint32(request, word)
	}
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("subscribing to the process connector: %w", err)
	}
	for message := make([]byte, 4096); ; {
		n, _, err := unix.Recvfrom(fd, message, 0)
		switch {
		case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EINTR): // the kernel dropped events
		case err != nil:
			return fmt.Errorf("receiving from the process connector: %w", err)
		case n >= events+24 && binary.NativeEndian.Uint32(message[events:]) == exec:
			started(int(binary.NativeEndian.Uint32(message[events+20:])))
		}
	}
}

func main() {
	c := client.New(client.DefaultSocket())
	log.Fatal(execs(func(pid int) {
		go func() { // most processes run in no container: the answer is an error
			if found, err := c.Lookup(context.Background(), client.LookupQuery{PID: pid, Wait: 2 * time.Second}); err == nil && found.Pods[0].Container != nil {
				fmt.Printf("%s/%s/%s\n", found.Pods[0].Namespace, found.Pods[0].Name, found.Pods[0].Container.Name)
			}
		}()
	}))
}
