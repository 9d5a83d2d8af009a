package export

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	service "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/internal/loopback"
	"github.com/podconfigd/podconfigd/internal/smallfile"
	"github.com/podconfigd/podconfigd/internal/version"
)

const (
	exportMethod = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
	// maxReason is the maximum length of what a record quotes of an answer of the Collector, in bytes.
	maxReason = 1 << 10
	// maxDelay is the longest wait that the Collector can ask for.
	maxDelay = time.Hour
)

// exportTimeout is the time in which the Collector must acknowledge a batch. retries are the waits before a batch is repeated.
var (
	exportTimeout = 30 * time.Second
	retries       = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 32, Cap: 15 * time.Second}
)

// errRefused means that the Collector does not accept the records, however often they are sent.
var errRefused = errors.New("refused")

// collectorFlags say how to connect to the Collector.
type collectorFlags struct{ address, caFile, certFile, keyFile, headersFile, tokenFile string }

func (c *collectorFlags) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.address, "otlp", "", "Address of the Collector's receiver for OTLP/gRPC: https://HOST:PORT, or http://HOST:PORT without TLS. Required.")
	f.StringVar(&c.caFile, "otlp-ca-file", "", "Path to a file with the CA certificates that verify the Collector. Read for each connection. If empty, uses those of the system.")
	f.StringVar(&c.certFile, "otlp-cert-file", "", "Path to a client certificate file for the Collector. Read for each connection. Requires --otlp-key-file.")
	f.StringVar(&c.keyFile, "otlp-key-file", "", "Path to the key file of --otlp-cert-file.")
	f.StringVar(&c.headersFile, "otlp-headers-file", "", "Path to a file with headers for the Collector, one NAME: VALUE a line. Read again for each request.")
	f.StringVar(&c.tokenFile, "otlp-token-file", "", "Path to a file with a bearer token for the Collector. Read again for each request.")
	command.SetSection(f, "Collector", "otlp", "otlp-ca-file", "otlp-cert-file", "otlp-key-file", "otlp-headers-file", "otlp-token-file")
	command.CompleteFlag(cmd, "otlp")
}

func (c *collectorFlags) check() error {
	u, err := url.Parse(c.address)
	switch {
	case c.address == "":
		return errors.New("--otlp is not set: expected the address of a Collector, for example http://localhost:4317")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "":
		return fmt.Errorf("--otlp: %q is not an address: expected https://HOST:PORT or http://HOST:PORT", c.address)
	case (c.certFile == "") != (c.keyFile == ""):
		return errors.New("--otlp-cert-file and --otlp-key-file require each other: set both")
	case u.Scheme == "http" && (c.caFile != "" || c.certFile != ""):
		return errors.New("--otlp-ca-file and --otlp-cert-file require an --otlp with https://")
	case u.Scheme == "http" && (c.headersFile != "" || c.tokenFile != "") && !loopback.Host(u.Hostname()):
		return errors.New("--otlp-headers-file and --otlp-token-file require an --otlp with https://, or on this machine: others could read them")
	}
	return nil
}

// collector is a connection to a Collector. A new one takes its place if requests fail without an answer: something between them
// may have lost it, or the Collector may have a new CA.
type collector struct {
	*collectorFlags
	conn *grpc.ClientConn
}

// dial reads all files once. It does not connect.
func (c *collectorFlags) dial() (*collector, error) {
	to := &collector{collectorFlags: c}
	if _, err := to.headers(); err != nil {
		return nil, err
	}
	err := to.reconnect()
	return to, err
}

// reconnect replaces the connection. It reads the CA certificates. The next request connects.
func (c *collector) reconnect() error {
	u, err := url.Parse(c.address)
	if err != nil {
		return err
	}
	with := insecure.NewCredentials()
	if u.Scheme == "https" {
		config, err := c.tls()
		if err != nil {
			return err
		}
		with = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient("dns:///"+u.Host, grpc.WithTransportCredentials(with), grpc.WithUserAgent("podconfigctl/"+version.Get().Version))
	if err != nil {
		return err
	}
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.conn = conn
	return nil
}

func (c *collectorFlags) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.caFile != "" {
		data, err := smallfile.Read(c.caFile)
		if err != nil {
			return nil, fmt.Errorf("reading --otlp-ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("reading --otlp-ca-file: %s has no certificate in PEM", c.caFile)
		}
	}
	if c.certFile == "" {
		return config, nil
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
		return &pair, err
	}
	_, err := config.GetClientCertificate(nil)
	return config, err
}

// headers reads the headers and the token.
func (c *collectorFlags) headers() (metadata.MD, error) {
	headers := metadata.MD{}
	if c.headersFile != "" {
		data, err := smallfile.Read(c.headersFile)
		if err != nil {
			return nil, fmt.Errorf("reading --otlp-headers-file: %w", err)
		}
		for lines, n := bufio.NewScanner(bytes.NewReader(data)), 1; lines.Scan(); n++ {
			name, value, ok := strings.Cut(lines.Text(), ":")
			if strings.TrimSpace(lines.Text()) == "" {
				continue
			}
			if !ok {
				return nil, fmt.Errorf("reading --otlp-headers-file: %s:%d: expected NAME: VALUE", c.headersFile, n)
			}
			headers.Append(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
	if c.tokenFile != "" {
		data, err := smallfile.Read(c.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading --otlp-token-file: %w", err)
		}
		headers.Append("authorization", "Bearer "+string(bytes.TrimSpace(data)))
	}
	return headers, nil
}

// export sends records once, and returns how many the Collector has rejected, and why.
func (c *collector) export(ctx context.Context, node string, records []*logs.LogRecord) (*service.ExportLogsPartialSuccess, error) {
	headers, err := c.headers()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	within, cancel := context.WithTimeout(metadata.NewOutgoingContext(ctx, headers), exportTimeout)
	defer cancel()
	var response service.ExportLogsServiceResponse
	err = c.conn.Invoke(within, exportMethod, &service.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{
		Resource:  &resource.Resource{Attributes: []*common.KeyValue{text("service.name", "podconfigd"), text("k8s.node.name", node)}},
		ScopeLogs: []*logs.ScopeLogs{{Scope: &common.InstrumentationScope{Name: "podconfigctl", Version: version.Get().Version}, LogRecords: records}},
	}}}, &response)
	if err != nil && (within.Err() != nil || c.conn.GetState() != connectivity.Ready) {
		if err := c.reconnect(); err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
	}
	return response.PartialSuccess, err
}

// mayPass reports whether a request can succeed if it is repeated, and how long the Collector asks to wait. The codes are those of
// the specification of OTLP. It has no others, but what is wrong with a token or an address is not wrong with the records.
func mayPass(err error) (bool, time.Duration) {
	s := status.Convert(err)
	delay := time.Duration(-1)
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			delay = min(info.GetRetryDelay().AsDuration(), maxDelay)
		}
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss,
		codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true, delay
	case codes.ResourceExhausted:
		return delay >= 0, delay
	}
	return false, 0
}

// request repeats a request until it is answered for good. It returns what the Collector rejected, or an error if it is all, or
// if the context is done.
func (e *exporter) request(ctx context.Context, records []*logs.LogRecord) (rejected int64, why string, err error) {
	for pause := retries; ; {
		partial, err := e.collector.export(ctx, e.node, records)
		if err == nil {
			return min(max(partial.GetRejectedLogRecords(), 0), int64(len(records))), short(partial.GetErrorMessage()), nil
		}
		if ctx.Err() != nil {
			return 0, "", ctx.Err()
		}
		again, delay := mayPass(err)
		if !again {
			return int64(len(records)), short(status.Convert(err).Message()), errRefused
		}
		e.failures.Inc()
		e.note(fmt.Errorf("sending to %s: %s", e.address, plain(err)))
		if err := await.For(ctx, max(pause.Step(), delay)); err != nil {
			return 0, "", err
		}
	}
}

// send sends records in their order, for as long as it takes. It returns an error only if the context is done. In the place of a
// record that the Collector refuses for good is a gap: halves of the batch are sent until it is found. If the Collector refuses the
// gap too, the cause is not in the record: it is sent again.
func (e *exporter) send(ctx context.Context, records []*logs.LogRecord) error {
	for pause := retries; len(records) > 0; {
		rejected, why, err := e.request(ctx, records)
		half := len(records) / 2
		switch {
		case err != nil && !errors.Is(err, errRefused):
			return err
		case err != nil && half > 0:
			if err := e.send(ctx, records[:half]); err != nil {
				return err
			}
			records = records[half:]
			continue
		case rejected == 0:
			e.records.Add(float64(len(records)))
			return nil
		}
		e.note(fmt.Errorf("sending to %s: %d of %d records are %w: %s", e.address, rejected, len(records), errRefused, why))
		_, _, noGap := e.request(ctx, []*logs.LogRecord{rejection(records, rejected, why)})
		switch {
		case noGap != nil && !errors.Is(noGap, errRefused):
			return noGap
		case noGap == nil || err == nil: // of a partial success, nothing may be repeated: that it is counted has to do
			e.records.Add(float64(int64(len(records)) - rejected))
			e.rejected.Add(float64(rejected))
			return nil
		}
		e.failures.Inc()
		if err := await.For(ctx, pause.Step()); err != nil {
			return err
		}
	}
	return nil
}

// rejection is the gap of records that the Collector rejected. It does not say which of them. The attributes are those of the last.
func rejection(records []*logs.LogRecord, rejected int64, why string) *logs.LogRecord {
	r := gap(position{}, fmt.Sprintf("the Collector rejected %d of the %d records up to this one: %s", rejected, len(records), why))
	r.Attributes = records[len(records)-1].Attributes
	return r
}

// plain is the error of a request without the words of gRPC around it.
func plain(err error) string {
	s := status.Convert(err)
	text := s.Message()
	if _, quoted, ok := strings.Cut(text, "desc = "); ok {
		if inner, err := strconv.Unquote(quoted); err == nil {
			text = strings.TrimPrefix(inner, "transport: ")
		}
	}
	return fmt.Sprintf("%s (%s)", text, s.Code())
}

// short cuts what the Collector says, so that a gap that quotes it is small.
func short(why string) string { return why[:min(len(why), maxReason)] }

// noter returns a function that prints an error, and not again before another one. Goroutines can call it at once.
func noter(notes io.Writer) func(error) {
	var mu sync.Mutex
	var last string
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if err.Error() != last {
			last = err.Error()
			then := "trying again"
			if errors.Is(err, errRefused) {
				then = "sending a gap"
			}
			fmt.Fprintf(notes, "podconfigctl: %v; %s\n", err, then)
		}
	}
}
