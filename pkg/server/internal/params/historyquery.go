package params

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
)

const (
	defaultHistoryLimit = 500
	maxHistoryLimit     = 10000
)

var historyParameters = []string{"since", "source", "pod", "pods", "limit", "continue"}

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
	Since     time.Time `json:"t"`
	Selection string    `json:"s"`
}

var errHistoryToken = errors.New("invalid: expected the token of the previous page")

// Token returns the token of the page after a record.
func (q *HistoryQuery) Token(last history.Position) string {
	data, err := json.Marshal(historyToken{last.Instance, last.Revision, q.Opts.Since, q.selection})
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
		return errors.New("it is of a request with other parameters: pass the same since, source, pod and pods")
	}
	q.Opts.After, q.Opts.Since = history.Position{Instance: t.Instance, Revision: t.Revision}, t.Since
	return nil
}

// ParseHistory parses the parameters of /v1alpha1/history. Its error names every invalid
// parameter.
func ParseHistory(raw string, now time.Time) (*HistoryQuery, error) {
	values, err := Parameters(raw, historyParameters)
	if err != nil {
		return nil, err
	}
	var errs []error
	fail := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("parameter %q: %w", name, err))
		}
	}
	q := &HistoryQuery{selection: strings.Join([]string{values["since"], values["source"], values["pod"], values["pods"]}, " ")}
	q.Opts.Since, err = history.ParseSince(values["since"], now)
	fail("since", err)
	q.Opts.Source, err = config.ParseSource(values["source"])
	fail("source", err)
	q.Opts.Pod, err = history.ParsePod(values["pod"])
	fail("pod", err)
	q.Opts.Pods, err = ParseBool(values["pods"], false)
	fail("pods", err)
	limit := int64(0)
	if s := values["limit"]; s != "" {
		if limit, err = strconv.ParseInt(s, 10, 64); err != nil {
			limit = -1
		}
	}
	if q.Limit, err = historyLimit(limit); err != nil {
		fail("limit", fmt.Errorf("%q %w", values["limit"], err))
	}
	if len(errs) == 0 {
		fail("continue", q.resume(values["continue"]))
	}
	return q, errors.Join(errs...)
}

// HistoryRequest converts a request of gRPC. Its error names every invalid field.
func HistoryRequest(request *v1alpha1.HistoryRequest) (*HistoryQuery, error) {
	var errs []error
	fail := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	q := new(HistoryQuery)
	since := ""
	if t := request.GetSince(); t != nil {
		fail("since", t.CheckValid())
		q.Opts.Since = t.AsTime()
		since = q.Opts.Since.Format(time.RFC3339Nano)
	}
	q.selection = fmt.Sprint(since, " ", request.GetSource(), " ", request.GetPod(), " ", request.GetPods())
	var err error
	q.Opts.Source, err = config.ParseSource(request.GetSource())
	fail("source", err)
	q.Opts.Pod, err = history.ParsePod(request.GetPod())
	fail("pod", err)
	q.Opts.Pods = request.GetPods()
	if q.Limit, err = historyLimit(request.GetLimit()); err != nil {
		fail("limit", fmt.Errorf("%d %w", request.GetLimit(), err))
	}
	if len(errs) == 0 {
		fail("continue_token", q.resume(request.GetContinueToken()))
	}
	return q, errors.Join(errs...)
}

func historyLimit(limit int64) (int, error) {
	switch {
	case limit < 0 || limit > maxHistoryLimit:
		return 0, fmt.Errorf("is not a number of records: expected 1 to %d, or 0 for %d", maxHistoryLimit, defaultHistoryLimit)
	case limit == 0:
		return defaultHistoryLimit, nil
	}
	return int(limit), nil
}
