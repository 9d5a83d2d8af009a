package journal

import "testing"

func TestRing(t *testing.T) {
	var r ring[int]
	next := 0
	for i := range 1000 {
		r.push(i)
		if i%3 == 2 {
			if got := r.pop(); got != next {
				t.Fatalf("popped %d, want %d", got, next)
			}
			next++
		}
		for k := range r.len() {
			if r.at(k) != next+k {
				t.Fatalf("at(%d) is %d, want %d", k, r.at(k), next+k)
			}
		}
	}
}
