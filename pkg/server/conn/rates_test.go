package conn

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// Many addresses fill no memory.
func TestRatesOfManyPeers(t *testing.T) {
	r := NewRates(rate.Every(time.Hour), 1)
	for i := range 10 * maxRated {
		r.Take(networkPeer(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})))
	}
	if n := len(r.limiters.Keys()); n > maxRated {
		t.Errorf("%d peers", n)
	}
	peer := networkPeer(netip.MustParseAddr("10.0.0.0"))
	if r.Wait(peer) > 0 || !r.Take(peer) || r.Take(peer) || r.Wait(peer) <= 0 {
		t.Error("the rate of a peer that was forgotten")
	}
	if other := networkPeer(netip.MustParseAddr("10.0.0.1")); r.Wait(other) > 0 || !r.Take(other) {
		t.Error("the rate of another peer")
	}
}
