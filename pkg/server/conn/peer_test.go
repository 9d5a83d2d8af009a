package conn

import (
	"net/netip"
	"testing"
)

func TestPeersOverTCP(t *testing.T) {
	for ip, want := range map[string]string{
		"10.1.2.3": "10.1.2.3", "::ffff:10.1.2.3": "10.1.2.3", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64", "::1": "loopback", "127.0.0.2": "loopback", "::ffff:127.1.2.3": "loopback",
	} {
		t.Run(ip, func(t *testing.T) {
			if id := NetworkPeer(netip.MustParseAddr(ip)); !id.known || id.String() != want {
				t.Errorf("%s: %v, want %s", ip, id, want)
			}
		})
	}
}
