package top

import (
	"fmt"
	"strings"
	"time"
)

const (
	// ratesKept is the number of seconds of the sparkline.
	ratesKept = 120
	// rateWindow is the number of seconds of the shown rate.
	rateWindow = 10
)

var bars = []rune("▁▂▃▄▅▆▇█")

// rates counts updates in each second.
type rates struct {
	counts [ratesKept]int // the present second is the last
	second int64
}

// advance moves to the second of now.
func (r *rates) advance(now time.Time) {
	second := now.Unix()
	n := min(max(second-r.second, 0), ratesKept)
	copy(r.counts[:], r.counts[n:])
	clear(r.counts[ratesKept-n:])
	r.second = second
}

func (r *rates) add(n int) { r.counts[ratesKept-1] += n }

// perSecond returns the mean of the last complete seconds.
func (r *rates) perSecond() string {
	sum := 0
	for _, n := range r.counts[ratesKept-1-rateWindow : ratesKept-1] {
		sum += n
	}
	return fmt.Sprintf("%.1f/s", float64(sum)/rateWindow)
}

// sparkline draws the last seconds, one in each cell.
func (r *rates) sparkline(width int) string {
	width = min(max(width, 0), ratesKept)
	counts := r.counts[ratesKept-width:]
	most := 1
	for _, n := range counts {
		most = max(most, n)
	}
	var b strings.Builder
	for _, n := range counts {
		b.WriteRune(bars[(n*(len(bars)-1)+most-1)/most])
	}
	return b.String()
}
