package backend

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// Requests that come while an answer is made get the next answer, which is made once. So no answer
// is older than its request.
func TestAnswersAreMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, made, begin := newAnswers(), 0, make(chan struct{})
		var requests sync.WaitGroup
		get := func(want string) {
			requests.Go(func() {
				data, err := a.get("key", func() ([]byte, error) {
					made++
					n := byte('0' + made)
					<-begin
					return []byte{n}, nil
				})
				if err != nil || string(data) != want {
					t.Errorf("%s, %v, want %s", data, err, want)
				}
			})
		}
		get("1")
		synctest.Wait()
		for range 63 {
			get("2")
		}
		synctest.Wait()
		begin <- struct{}{}
		synctest.Wait()
		get("3")
		synctest.Wait()
		close(begin)
		requests.Wait()
		data, err := a.get("key", func() ([]byte, error) { return nil, errors.New("failed") })
		if made != 3 || data != nil || err == nil {
			t.Errorf("made %d answers; then %s, %v", made, data, err)
		}
	})
}
