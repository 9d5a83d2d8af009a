package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// The daemon and the gateway get no header with which a client could be someone else, or do something
// else than the proxy has checked.
func TestHeadersThatPass(t *testing.T) {
	g, address := proxiedGateway(t)
	sent := []string{
		"Authorization", "Bearer other", "Proxy-Authorization", "Basic eDp5", "Cookie", "session=x",
		"Impersonate-User", "system:admin", "Impersonate-Group", "system:masters", "Impersonate-Uid", "0", "Impersonate-Extra-A", "b",
		"X-Remote-User", "system:admin", "X-Remote-Group", "system:masters", "X-Remote-Extra-A", "b",
		"X-Forwarded-For", "10.0.0.1", "X-Forwarded-Host", "h", "X-Forwarded-Proto", "https", "X-Forwarded-Uri", "/a", "Forwarded", "for=10.0.0.1",
		"X-Real-Ip", "10.0.0.1", "X-Original-Url", "/a", "X-Rewrite-Url", "/a", "X-Http-Method-Override", "DELETE", "X-Method-Override", "DELETE",
		"Keep-Alive", "timeout=5", "Proxy-Connection", "keep-alive", "X-Hop", "h", "X-Any", "a", "Range", "bytes=0-1",
		"Accept", "application/json", "Accept-Encoding", "gzip", "If-None-Match", "e", "User-Agent", "agent/1", "Content-Type", "application/json",
	}
	want := map[string]string{
		"Authorization": "Bearer owner", "Accept": "application/json", "Accept-Encoding": "gzip", "If-None-Match": "e", "User-Agent": "agent/1",
		"Content-Type": "application/json",
	}
	for _, version := range []int{1, 2} {
		for _, fields := range [][]string{{"Connection", "X-Hop, keep-alive"}, {"Connection", "Upgrade", "Upgrade", "websocket"}, {"Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAA"}} {
			if version == 1 {
				if code, answer := sendHTTP1(t, address, http.MethodGet, "/pods", "", append(fields, sent...)...); code != http.StatusOK || answer != "arrived" {
					t.Errorf("%s: %d %s", fields, code, answer)
				}
			} else if code, answer, _ := sendHTTP2(t, address, http.MethodGet, "/pods", "", fieldsOfHTTP2(sent)...); code != "200" || answer != "arrived" {
				t.Errorf("HTTP/2: %s %s", code, answer)
			}
			seen := g.take()
			if len(seen) != 1 {
				t.Fatalf("%s: %d requests arrived", fields, len(seen))
			}
			for name, values := range seen[0].header {
				if want[name] != strings.Join(values, ",") {
					t.Errorf("HTTP/%d %s: %s %q arrived", version, fields, name, values)
				}
			}
			for name := range want {
				if seen[0].header[name] == nil {
					t.Errorf("HTTP/%d %s: %s did not arrive", version, fields, name)
				}
			}
		}
	}
}

// fieldsOfHTTP2 returns fields with the names and without the fields that HTTP/2 forbids.
func fieldsOfHTTP2(fields []string) (modern []string) {
	for i := 0; i < len(fields); i += 2 {
		if name := strings.ToLower(fields[i]); name != "keep-alive" && name != "proxy-connection" {
			modern = append(modern, name, fields[i+1])
		}
	}
	return modern
}

// An answer has no cookies or other headers of a gateway.
func TestHeadersOfAnswers(t *testing.T) {
	sent := map[string]string{
		"Set-Cookie": "session=owner", "Set-Cookie2": "a", "Authorization": "Bearer owner", "X-Auth-Token": "owner", "Www-Authenticate": "Basic",
		"Location": "https://other.example/", "Refresh": "0", "Clear-Site-Data": "*", "Access-Control-Allow-Origin": "*", "Any": "a",
		"Etag": "e", "Retry-After": "3", "Podconfigd-Restored": "file", "X-Content-Type-Options": "nosniff", "Warning": "299 - w",
	}
	address, _ := proxiedBy(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: http.StatusFound, ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header), Body: http.NoBody, Request: r}
		for name, value := range sent {
			resp.Header.Set(name, value)
		}
		return resp, nil
	}))
	by := &http.Transport{DisableKeepAlives: true}
	resp, err := by.RoundTrip(request(t, http.MethodGet, "http://"+address+"/pods"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		if !slices.Contains(append([]string{"Connection"}, passingAnswers...), name) {
			t.Errorf("%s: %q came", name, values)
		}
	}
	for _, name := range []string{"Etag", "Retry-After", "Podconfigd-Restored", "X-Content-Type-Options", "Warning"} {
		if resp.Header.Get(name) != sent[name] {
			t.Errorf("%s is %q, want %q", name, resp.Header.Get(name), sent[name])
		}
	}
}

// A trailer is a header that comes late.
func TestTrailersDoNotPass(t *testing.T) {
	g, address := proxiedGateway(t)
	modern := &http.Transport{Protocols: new(http.Protocols)}
	modern.Protocols.SetUnencryptedHTTP2(true)
	defer modern.CloseIdleConnections()
	r := request(t, http.MethodPost, "http://"+address+"/podconfigd.v1alpha1.PodConfig/List")
	r.Header.Set("Content-Type", "application/grpc")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), -1
	r.Trailer = http.Header{"Impersonate-User": {"system:admin"}, "X-Remote-User": {"system:admin"}}
	resp, err := modern.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	seen := g.take()
	if len(seen) != 1 || seen[0].body != "{}" || len(seen[0].trailer) != 0 {
		t.Errorf("got %v", seen)
	}
}

// What comes before an answer, and behind it, has no other headers than the answer.
func TestHeadersAroundAnswers(t *testing.T) {
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "session=owner")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "Set-Cookie, Grpc-Status")
		_, _ = w.Write([]byte("{}"))
		w.(http.Flusher).Flush()
		w.Header().Set("Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"X-Auth-Token", "owner")
	}))
	t.Cleanup(gateway.Close)
	by := new(http.Transport)
	t.Cleanup(by.CloseIdleConnections)
	address, _ := proxiedBy(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		r.URL.Scheme, r.URL.Host = "http", strings.TrimPrefix(gateway.URL, "http://")
		return by.RoundTrip(r)
	}))
	conn := dial(t, address)
	defer conn.Close()
	if _, err := conn.Write([]byte("GET /pods HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(answer), "owner") || !strings.HasPrefix(string(answer), "HTTP/1.1 200") || !strings.Contains(string(answer), "Grpc-Status: 0") {
		t.Errorf("got %s", answer)
	}
}
