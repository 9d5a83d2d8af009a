package params

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/podconfigd/podconfigd/pkg/journal/history"
)

// The start of a period is computed for the first page. Later pages keep it.
func TestAPeriodBeginsAtTheFirstPage(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	first, err := ParseHistory("since=10m", now)
	if err != nil {
		t.Fatal(err)
	}
	next, err := ParseHistory("since=10m&continue="+first.Token(history.Position{Instance: "i", Revision: 7}), now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	want := history.Options{Since: now.Add(-10 * time.Minute), After: history.Position{Instance: "i", Revision: 7}}
	if diff := gocmp.Diff(want, next.Opts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Any query is either accepted completely or refused with a reason. The token of an
// accepted one continues it.
func FuzzParseHistory(f *testing.F) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	first, err := ParseHistory("since=10m&pod=a/b", now)
	if err != nil {
		f.Fatal(err)
	}
	for _, query := range []string{
		"", "since=10m&source=file&pod=a/b&pods=true&limit=7", "since=0000-01-01T00:00:00%2B23:59", "since=9999-12-31T23:59:59-23:59", "limit=-1", "continue=x",
		"since=10m&pod=a/b&continue=" + first.Token(history.Position{Instance: "i", Revision: 1}),
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := ParseHistory(query, now)
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a reason")
			}
			return
		}
		next := *q
		last := history.Position{Instance: "i", Revision: 7}
		if err := next.resume(q.Token(last)); err != nil || next.Opts.After != last || !next.Opts.Since.Equal(q.Opts.Since) {
			t.Errorf("%q: %v, %+v after %+v", query, err, next.Opts, q.Opts)
		}
	})
}
