package server

import (
	"fmt"
	"iter"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// Each change comes once, in order, also while changes are added, over either protocol.
func TestPagesOfHistory(t *testing.T) {
	const before = 150
	l := newLog(t, store.Options{MaxBytes: math.MaxInt32}) // of several segments
	for i := range before {
		l.change(config.ADD, "file", fmt.Sprintf("p%d", i), "i")
	}
	d := l.serve()
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	readers := map[string]func(token string) (names []string, next string){
		"HTTP": func(token string) (names []string, next string) {
			page := d.page(t, "since=1000000h&limit=7&continue="+token)
			for i := range page.Records {
				names = append(names, page.Records[i].Name)
			}
			return names, page.Continue
		},
		"gRPC": func(token string) (names []string, next string) {
			page, err := api.History(t.Context(), &podconfigd.HistoryRequest{Since: timestamppb.New(time.Unix(1, 0)), Limit: 7, ContinueToken: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.GetRecords() {
				names = append(names, r.GetName())
			}
			return names, page.GetContinueToken()
		},
	}
	added := before
	for protocol, read := range readers {
		least, seen, pages, token := added, 0, 0, ""
		for token != "" || pages == 0 {
			names, next := read(token)
			if len(names) > 7 || next != "" && len(names) < 7 {
				t.Fatalf("%s: a page has %d records", protocol, len(names))
			}
			for _, name := range names {
				if name != fmt.Sprintf("p%d", seen) {
					t.Fatalf("%s: got %s, want p%d", protocol, name, seen)
				}
				seen++
			}
			if pages++; pages%3 == 0 {
				l.change(config.ADD, "file", fmt.Sprintf("p%d", added), "i")
				added++
			}
			token = next
		}
		if seen < least || seen > added {
			t.Errorf("%s: %d records, want %d to %d", protocol, seen, least, added)
		}
	}
}

// The newest first: the pages are those of the whole history from its end, and what happens meanwhile is on
// none of them.
func TestPagesOfTheNewest(t *testing.T) {
	l := newLog(t, store.Options{})
	for i := range 50 {
		l.change(config.ADD, "file", fmt.Sprint("p", i), "i")
	}
	d := l.serve()
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	var names, namesOfGRPC []string
	until := timestamppb.New(l.now.Add(time.Hour))
	for pages, token := 0, ""; pages == 0 || token != ""; pages++ {
		page := d.page(t, "newest=true&limit=7&continue="+token)
		for i := range page.Records {
			names = append(names, page.Records[i].Name)
		}
		if token = page.Continue; token != "" && len(page.Records) != 7 {
			t.Fatalf("a page has %d records", len(page.Records))
		}
	}
	for pages, token := 0, ""; pages == 0 || token != ""; pages++ {
		page, err := api.History(t.Context(), &podconfigd.HistoryRequest{Newest: true, Limit: 9, ContinueToken: token, Until: until})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.GetRecords() {
			namesOfGRPC = append(namesOfGRPC, r.GetName())
		}
		l.change(config.ADD, "file", fmt.Sprint("later", pages), "i")
		token = page.GetContinueToken()
	}
	var want []string
	for i := range 50 {
		want = append(want, fmt.Sprint("p", 49-i))
	}
	for _, got := range [][]string{names, namesOfGRPC} {
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	token := d.page(t, "newest=true&limit=1").Continue
	if code, body := d.get(t, "/v1alpha1/history?limit=1&continue="+token); code != http.StatusBadRequest {
		t.Errorf("a token of the other order: %d %s", code, body)
	}
}

// After a position come only later changes, also if none before them is selected.
func TestHistoryAfterAPosition(t *testing.T) {
	l := newLog(t, store.Options{})
	for i := range 4 {
		l.change(config.ADD, fmt.Sprint("file:", i), fmt.Sprint("p", i), "i")
	}
	d := l.serve()
	at := d.page(t, "limit=2").Records[1]
	query := fmt.Sprintf("instance=%s&after=%d&limit=1", at.Instance, at.Revision)
	page := d.page(t, query)
	if names := page.Records[0].Name + d.page(t, query+"&continue="+page.Continue).Records[0].Name; names != "p2p3" {
		t.Errorf("got %s", names)
	}
	if page := d.page(t, query+"&source=file:3"); page.Records[0].Name != "p3" {
		t.Errorf("got %s", short(page.Records))
	}
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	answer, err := api.History(t.Context(), &podconfigd.HistoryRequest{Instance: at.Instance, After: at.Revision})
	if err != nil || len(answer.GetRecords()) != 2 || answer.GetRecords()[0].GetName() != "p2" {
		t.Errorf("gRPC: %v, %v", answer, err)
	}
	if _, err := api.History(t.Context(), &podconfigd.HistoryRequest{Instance: at.Instance, After: -1}); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "after: ") {
		t.Errorf("gRPC: %v", err)
	}
}

// A page ends after about 1 MiB, but has at least one record.
func TestPagesOfLargeRecords(t *testing.T) {
	l := newLog(t, store.Options{})
	for i := range 4 {
		l.change(config.ADD, "file", fmt.Sprint("p", i), strings.Repeat("x", 600<<10))
	}
	l.change(config.ADD, "file", "p4", strings.Repeat("x", 1100<<10))
	d := l.serve()
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	var sizes, sizesOfGRPC []int
	for token := ""; token != "" || sizes == nil; {
		page := d.page(t, "pods=true&continue="+token)
		sizes, token = append(sizes, len(page.Records)), page.Continue
	}
	for token := ""; token != "" || sizesOfGRPC == nil; {
		page, err := api.History(t.Context(), &podconfigd.HistoryRequest{Pods: true, ContinueToken: token})
		if err != nil {
			t.Fatal(err)
		}
		sizesOfGRPC, token = append(sizesOfGRPC, len(page.GetRecords())), page.GetContinueToken()
	}
	for _, got := range [][]int{sizes, sizesOfGRPC} {
		if diff := gocmp.Diff([]int{2, 2, 1}, got); diff != "" {
			t.Errorf("records of the pages (-want +got):\n%s", diff)
		}
	}
}

// Deleted changes that a reader has not seen are an error, and not left out.
func TestHistoryIsCompactedBetweenPages(t *testing.T) {
	l := newLog(t, store.Options{})
	var segments []string
	for i := 0; len(segments) < 4; i++ { // a new segment is prepared beside the changes
		l.change(config.ADD, "file", fmt.Sprint("p", i%10), strings.Repeat("x", 1<<10))
		var err error
		if segments, err = filepath.Glob(filepath.Join(l.dir, "journal-*.log")); err != nil {
			t.Fatal(err)
		}
	}
	d := l.serve()
	begin := d.page(t, "limit=3")
	token := begin.Continue
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	page, err := api.History(t.Context(), &podconfigd.HistoryRequest{Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(segments[0]); err != nil {
		t.Fatal(err)
	}
	code, body := d.get(t, "/v1alpha1/history?limit=3&continue="+token)
	if code != http.StatusGone || !strings.Contains(body, "were deleted") || !strings.Contains(body, `"reason":"Expired"`) {
		t.Errorf("%d %s", code, body)
	}
	_, err = api.History(t.Context(), &podconfigd.HistoryRequest{ContinueToken: page.GetContinueToken()})
	if status.Code(err) != codes.OutOfRange || !strings.Contains(err.Error(), "were deleted") {
		t.Errorf("gRPC: %v", err)
	}
	// A position is as good as a token.
	at := begin.Records[2]
	if code, body := d.get(t, fmt.Sprintf("/v1alpha1/history?instance=%s&after=%d", at.Instance, at.Revision)); code != http.StatusGone {
		t.Errorf("%d %s", code, body)
	}
	if first := d.page(t, "limit=1"); first.Records[0].Revision == begin.Records[0].Revision {
		t.Errorf("the history from the start: %s", short(first.Records))
	}
}

// The end of the log can't be read, and the log fails. What is missing at the end has no position of
// its own: it comes with the page of the last record, once.
func TestHistoryPagesEndWithGaps(t *testing.T) {
	l := newLog(t, store.Options{})
	for i := range 6 {
		l.change(config.UPDATE, "file", "a", fmt.Sprintf("i:%d", i))
	}
	files, err := filepath.Glob(filepath.Join(l.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 0 {
			data[len(data)/2]++
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := l.serve()
	d.server.rest.History = func(opts history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error] {
		return func(yield func(*v1alpha1.HistoryRecord, error) bool) {
			end := &v1alpha1.HistoryRecord{Gap: "updates are not stored"} // as the daemon does
			if opts.Newest && opts.Before == 0 && !yield(end, nil) {
				return
			}
			for r, err := range history.Read(l.dir, opts) {
				if !yield(r, err) || err != nil {
					return
				}
			}
			if !opts.Newest {
				yield(end, nil)
			}
		}
	}
	whole := d.page(t, "").Records
	if n := len(whole); n < 3 || whole[n-1].Gap == "" || whole[n-2].Gap == "" || whole[n-3].Gap != "" {
		t.Fatalf("%+v", whole)
	}
	for limit := 1; limit <= len(whole)+1; limit++ {
		var records []v1alpha1.HistoryRecord
		query := fmt.Sprintf("limit=%d", limit)
		for pages, token := 0, ""; pages == 0 || token != ""; pages++ {
			if pages > len(whole) {
				t.Fatalf("limit %d: page %d follows", limit, pages)
			}
			page := d.page(t, query+"&continue="+token)
			records, token = append(records, page.Records...), page.Continue
		}
		if len(records) != len(whole) {
			t.Errorf("limit %d: %d records, want %d", limit, len(records), len(whole))
		}
		var newest []v1alpha1.HistoryRecord
		for token := "first"; token != ""; {
			page := d.page(t, query+"&newest=true&continue="+strings.TrimPrefix(token, "first"))
			newest, token = append(newest, page.Records...), page.Continue
		}
		slices.Reverse(newest)
		if diff := gocmp.Diff(whole, newest); diff != "" {
			t.Errorf("limit %d, the newest first (-want +got):\n%s", limit, diff)
		}
	}
}
