package server

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// Any possible revision can be requested. An unknown one gives a reset. For anything
// else, the error names the parameter.
func TestNumbersOfUpdates(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	d.add("a", 1)
	for _, since := range []string{"0", "1", "9223372036854775807"} {
		if u := d.read(t, "?since="+since).expect(t, v1alpha1.OpBookmark); !u.Reset || u.Revision != 0 {
			t.Errorf("since=%s: %+v, want a reset", since, u)
		}
	}
	for _, since := range []string{"-1", "9223372036854775808", "-9223372036854775808", "1e308", "1.5", "0x10", "18446744073709551616"} {
		code, body := d.get(t, "/v1alpha1/updates?since="+url.QueryEscape(since))
		want := fmt.Sprintf(`parameter \"since\": \"%s\" is not a revision: expected 0 to 9223372036854775807`, since)
		if code != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("since=%s: %d %s", since, code, body)
		}
	}
}

// numericFields are all numeric and enum fields of requests.
var numericFields = []string{
	"WatchRequest.mode", "WatchRequest.since", "WatchRequest.ops", "HistoryRequest.limit", "HistoryRequest.after", "Timestamp.seconds", "Timestamp.nanos",
	"LookupRequest.pid", "LookupRequest.start_time", "LookupRequest.cgroup_id",
	"LookupRequest.netns", "LookupRequest.mntns", "LookupRequest.pidns", "LookupRequest.cgroupns", "Duration.seconds", "Duration.nanos",
	"LookupStreamRequest.id", // any number
	"ReleaseRequest.removes",
	"WatchContainersRequest.since", // as in WatchRequest
}

func TestNumbersOfRequests(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	d.add("a", 1)
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	for _, number := range []int64{0, 1, math.MaxInt64} {
		stream, err := api.Watch(t.Context(), &podconfigd.WatchRequest{Since: &number})
		if err != nil {
			t.Fatal(err)
		}
		if u, err := stream.Recv(); err != nil || !u.GetReset_() || u.GetRevision() != 0 {
			t.Errorf("since: %d: %v, %v, want a reset", number, u, err)
		}
	}
	refused := map[string][]*podconfigd.WatchRequest{}
	for _, number := range []int64{-1, math.MinInt64} {
		refused["since: "] = append(refused["since: "], &podconfigd.WatchRequest{Since: &number})
	}
	for _, number := range []int32{-1, 1000, math.MaxInt32, math.MinInt32} {
		refused["mode: "] = append(refused["mode: "], &podconfigd.WatchRequest{Mode: podconfigd.Mode(number)})
		refused["ops[0]: "] = append(refused["ops[0]: "], &podconfigd.WatchRequest{Ops: []podconfigd.Operation{podconfigd.Operation(number)}})
	}
	for field, requests := range refused {
		for _, request := range requests {
			stream, err := api.Watch(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), field) {
				t.Errorf("%v: %v, want an error that names %q", request, err, field)
			}
		}
	}

	// There are no others.
	services := podconfigd.File_podconfigd_v1alpha1_podconfigd_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			checkFields(t, methods.Get(j).Input())
		}
	}
}

// Any possible number of records can be requested. For anything else, the error names the
// parameter.
func TestNumbersOfHistory(t *testing.T) {
	l := newLog(t, store.Options{})
	d := l.serve()
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	for limit, taken := range map[string]bool{
		"0": true, "1": true, "10000": true, "-1": false, "10001": false, "9223372036854775807": false, "9223372036854775808": false,
		"-9223372036854775808": false, "1e308": false, "1.5": false,
	} {
		t.Run(limit, func(t *testing.T) {
			code, body := d.get(t, "/v1alpha1/history?limit="+limit)
			want := fmt.Sprintf(`parameter \"limit\": \"%s\" is not a number of records: expected 1 to 10000, or 0 for 500`, limit)
			if taken != (code == http.StatusOK) || !taken && !strings.Contains(body, want) {
				t.Errorf("limit=%s: %d %s", limit, code, body)
			}
			number, err := strconv.ParseInt(limit, 10, 64)
			if err != nil {
				return
			}
			_, err = api.History(t.Context(), &podconfigd.HistoryRequest{Limit: number})
			if taken != (err == nil) || !taken && !strings.Contains(err.Error(), "limit: ") {
				t.Errorf("gRPC, limit %s: %v", limit, err)
			}
		})
	}
	for _, since := range []*timestamppb.Timestamp{
		{Seconds: math.MaxInt64}, {Seconds: math.MinInt64}, {Seconds: 253402300800}, {Nanos: -1}, {Nanos: 1e9}, {Nanos: math.MaxInt32}, {Nanos: math.MinInt32},
	} {
		if _, err := api.History(t.Context(), &podconfigd.HistoryRequest{Since: since}); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "since: ") {
			t.Errorf("since %v: %v", since, err)
		}
	}
	for _, since := range []*timestamppb.Timestamp{{}, {Seconds: -62135596800}, {Seconds: 253402300799, Nanos: 999999999}} {
		if _, err := api.History(t.Context(), &podconfigd.HistoryRequest{Since: since}); err != nil {
			t.Errorf("since %v: %v", since, err)
		}
	}
}

func checkFields(t *testing.T, message protoreflect.MessageDescriptor) {
	t.Helper()
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		name := string(message.Name()) + "." + string(field.Name())
		switch field.Kind() {
		case protoreflect.StringKind, protoreflect.BoolKind, protoreflect.BytesKind:
		case protoreflect.MessageKind:
			checkFields(t, field.Message())
		default:
			if !slices.Contains(numericFields, name) {
				t.Errorf("%s is a number that is not tried", name)
			}
		}
	}
}
