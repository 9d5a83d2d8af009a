package await

import "testing"

func TestKeys(t *testing.T) {
	closed := func(woken chan struct{}) bool {
		select {
		case <-woken:
			return true
		default:
			return false
		}
	}
	keys := make(Keys[string])
	both, one, left := keys.Add("a", "b"), keys.Add("b"), keys.Add("a", "b")
	keys.Remove(left, "a", "b")
	keys.Wake("a")
	if !closed(both) || closed(one) || closed(left) {
		t.Errorf("after a: %t, %t, %t", closed(both), closed(one), closed(left))
	}
	keys.Wake("b") // for both a second time
	if !closed(one) || closed(left) || len(keys) != 0 {
		t.Errorf("after b: %t, %t, %v", closed(one), closed(left), keys)
	}
}
