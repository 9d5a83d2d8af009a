package params

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
)

const (
	defaultHistoryLimit = 500
	maxHistoryLimit     = 10000
)

// HistoryQuery is a request for a page.
type HistoryQuery struct {
	Opts  history.Options
	Limit int
	// selection are the parameters that must be the same for all pages.
	selection string
}

// historyToken is the content of a token: base64 of JSON. Clients must not rely on it.
type historyToken struct {
	Instance string `json:"i"`
	Revision int64  `json:"r"`
	// Since is the start of the first page. If the request has a period, each page would
	// start later than the one before.
	Since time.Time `json:"t"`
	// Until is the end of the first page, for the same reason.
	Until     time.Time `json:"u,omitzero"`
	Selection string    `json:"s"`
}

var errHistoryToken = errors.New("invalid: expected the token of the previous page")

// Token returns the token of the page after a record.
func (q *HistoryQuery) Token(last history.Position) string {
	data, err := json.Marshal(historyToken{last.Instance, last.Revision, q.Opts.Since, q.Opts.Until, q.selection})
	if err != nil { // the year of Since has more than four digits, which parsing prevents
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// resume continues after the page of a token.
func (q *HistoryQuery) resume(token string) error {
	if token == "" {
		return nil
	}
	var t historyToken
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || json.Unmarshal(data, &t) != nil || t.Instance == "" || t.Revision <= 0 {
		return errHistoryToken
	}
	if t.Selection != q.selection {
		return errors.New("it is of a request with other parameters: pass the same since, until, source, pod, pods, newest and owner")
	}
	q.Opts.Since, q.Opts.Until = t.Since, t.Until
	if q.Opts.Newest {
		q.Opts.Before = t.Revision
		return nil
	}
	q.Opts.After = history.Position{Instance: t.Instance, Revision: t.Revision}
	return nil
}

// ParseHistory parses the query of /v1alpha1/history.
func ParseHistory(raw string, now time.Time) (*HistoryQuery, error) {
	q, err := parseQuery(raw, "since", "source", "pod", "pods", "limit", "continue", "until", "newest", "owner", "instance", "after")
	if err != nil {
		return nil, err
	}
	v := q.values
	h := &HistoryQuery{selection: strings.Join([]string{v["since"], v["source"], v["pod"], v["pods"], v["until"], v["newest"]}, " ")}
	h.Opts.Since, err = history.ParseSince(v["since"], now)
	q.Add("since", err)
	h.Opts.Until, err = history.ParseSince(v["until"], now)
	q.Add("until", err)
	h.Opts.Newest = q.bool("newest", false)
	h.Opts.Pods = q.bool("pods", false)
	after := uint64(0)
	if v["after"] != "" {
		if after, err = strconv.ParseUint(v["after"], 10, 63); err != nil {
			q.Add("after", notRevision(strconv.Quote(v["after"])))
		}
	}
	h.setAfter(&q.Faults, v["instance"], int64(after))
	limit := int64(0)
	if v["limit"] != "" {
		if limit, err = strconv.ParseInt(v["limit"], 10, 64); err != nil {
			limit = -1
		}
	}
	h.setLimit(&q.Faults, limit, strconv.Quote(v["limit"]))
	h.complete(&q.Faults, v["source"], v["pod"], v["owner"], v["continue"])
	return h, q.Err()
}

// historyFields has the names of fields that differ from the parameters of HTTP.
var historyFields = map[string]string{"continue": "continue_token"}

// History converts a request for the history.
func History(request *v1alpha1.HistoryRequest) (*HistoryQuery, error) {
	f := Faults{fields: historyFields}
	h := new(HistoryQuery)
	since, until := "", ""
	if t := request.GetSince(); t != nil {
		f.Add("since", t.CheckValid())
		h.Opts.Since = t.AsTime()
		since = h.Opts.Since.Format(time.RFC3339Nano)
	}
	if t := request.GetUntil(); t != nil {
		f.Add("until", t.CheckValid())
		h.Opts.Until = t.AsTime()
		until = h.Opts.Until.Format(time.RFC3339Nano)
	}
	h.Opts.Newest = request.GetNewest()
	h.selection = fmt.Sprint(since, " ", request.GetSource(), " ", request.GetPod(), " ", request.GetPods(), " ", until, " ", h.Opts.Newest)
	h.Opts.Pods = request.GetPods()
	if request.GetAfter() < 0 {
		f.Add("after", notRevision(request.GetAfter()))
	}
	h.setAfter(&f, request.GetInstance(), request.GetAfter())
	h.setLimit(&f, request.GetLimit(), request.GetLimit())
	h.complete(&f, request.GetSource(), request.GetPod(), request.GetOwner(), request.GetContinueToken())
	return h, f.Err()
}

// setAfter sets the position after which the first page begins. A token has that of its page.
func (q *HistoryQuery) setAfter(f *Faults, instance string, after int64) {
	switch {
	case (instance == "") != (after == 0):
		f.Add("after", errors.New("requires instance, which requires after"))
	case after != 0 && q.Opts.Newest:
		f.Add("after", errors.New("not possible with newest"))
	}
	q.Opts.After = history.Position{Instance: instance, Revision: after}
}

// setLimit sets the number of records of a page; 0 for the default.
func (q *HistoryQuery) setLimit(f *Faults, limit int64, given any) {
	if limit < 0 || limit > maxHistoryLimit {
		f.Add("limit", fmt.Errorf("%v is not a number of records: expected 1 to %d, or 0 for %d", given, maxHistoryLimit, defaultHistoryLimit))
	}
	q.Limit = int(cmp.Or(limit, defaultHistoryLimit))
}

// complete parses the parameters that are text in all protocols. If the request has faults, the token is
// not checked.
func (q *HistoryQuery) complete(f *Faults, source, pod, owner, token string) {
	var err error
	q.Opts.Source, err = config.ParseSource(source)
	f.Add("source", err)
	q.Opts.Pod, err = history.ParsePod(pod)
	f.Add("pod", err)
	q.Opts.Owner, err = podfields.ParseOwner(owner)
	f.Add("owner", err)
	if owner != "" {
		q.selection += " " + owner
	}
	if len(f.errs) == 0 {
		f.Add("continue", q.resume(token))
	}
}
