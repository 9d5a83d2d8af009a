package socket

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"unix:///run/a.sock":      "unix:///run/a.sock",
		"unix:///run//b/../a":     "unix:///run/a",
		"http://127.0.0.1:10255":  "http://127.0.0.1:10255",
		"http://127.9.9.9:1/":     "http://127.9.9.9:1",
		"http://localhost:0":      "http://localhost:0",
		"http://[::1]:65535":      "http://[::1]:65535",
		"http://[0:0::1]:1":       "http://[::1]:1",
		"http://[::ffff:7f00:1]:": "port",
		"https://:10250":          "https://:10250",
		"https://0.0.0.0:10250":   "https://0.0.0.0:10250",
		"https://[::]:10250":      "https://[::]:10250",
		"https://10.0.0.1:0":      "https://10.0.0.1:0",

		"":                                 "no scheme",
		"/run/a.sock":                      "no scheme",
		"127.0.0.1:10255":                  "no scheme",
		"tcp://127.0.0.1:1":                `scheme "tcp" is unknown`,
		"HTTP://127.0.0.1:1":               `scheme "HTTP" is unknown`,
		"unix://run/a.sock":                "absolute path",
		"unix://":                          "absolute path",
		"unix:///run/":                     "is a directory",
		"unix:///run/\x00":                 "zero byte",
		"http://127.0.0.1":                 `port "": expected 0 to 65535`,
		"http://127.0.0.1:65536":           `port "65536"`,
		"http://127.0.0.1:-1":              "port",
		"http://127.0.0.1:http":            "port",
		"http://:10255":                    `address "" is not an IP address`,
		"http://0.0.0.0:10255":             "0.0.0.0 is not one",
		"http://[::]:10255":                ":: is not one",
		"http://10.0.0.1:10255":            "10.0.0.1 is not one: use https",
		"http://[::ffff:10.0.0.1]:10255":   "10.0.0.1 is not one",
		"http://node.example:10255":        `address "node.example" is not an IP address`,
		"http://localhost.example:10255":   "not an IP address",
		"http://127.1:10255":               "not an IP address",
		"http://2130706433:10255":          "not an IP address",
		"https://node.example:10250":       "not an IP address",
		"http://user:secret@127.0.0.1:1":   "expected only an address and a port",
		"http://127.0.0.1:1/pods":          "expected only an address and a port",
		"http://127.0.0.1:1?x":             "expected only an address and a port",
		"https://[fe80::1%25eth0]:10250":   "https://[fe80::1%eth0]:10250",
		"http://[::1:10255":                "missing ']'",
		"http://127.0.0.1:1\n":             "invalid control character",
		"http://127.0.0.1:1 http://x.de:1": "invalid",
	} {
		t.Run(text, func(t *testing.T) {
			a, err := ParseAddress(text)
			switch {
			case err == nil && a.String() != want:
				t.Errorf("%q: %s, want %s", text, a, want)
			case err != nil && !strings.Contains(err.Error(), want):
				t.Errorf("%q: %v, want %s", text, err, want)
			}
		})
	}
}

// An address in use is named as the flag has it.
func TestListenNamesTheAddress(t *testing.T) {
	l, err := Address{Scheme: SchemeHTTP, Host: "localhost"}.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	_, err = Address{Scheme: SchemeHTTP, Host: "localhost", Port: port}.Listen(t.Context())
	if err == nil || !strings.Contains(err.Error(), "http://localhost:") || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("the same port: %v", err)
	}
	// A name of another address of this host.
	if _, err = (Address{Scheme: SchemeHTTP, Host: "0.0.0.0"}).Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a loopback address") {
		t.Errorf("0.0.0.0: %v", err)
	}
}

func TestListensAt(t *testing.T) {
	for _, test := range []struct {
		address, at string
		want        bool
	}{
		{"http://127.0.0.1:10255", "127.0.0.1:10255", true},
		{"http://127.0.0.1:10255", "127.0.0.1:10256", false},
		{"http://127.0.0.1:10255", "127.0.0.2:10255", false},
		{"http://127.0.0.1:10255", "0.0.0.0:10255", false},
		{"http://localhost:10255", "127.0.0.1:10255", true},
		{"http://localhost:10255", "[::1]:10255", true},
		{"http://localhost:10255", "[::]:10255", false},
		{"http://127.0.0.1:0", "127.0.0.1:10255", false},
		{"https://0.0.0.0:10250", "[::]:10250", true},
		{"https://[::]:10250", "0.0.0.0:10250", true},
		{"https://:10250", "[::]:10250", true},
		{"https://:10250", "127.0.0.1:10250", false},
		{"https://192.0.2.1:10250", "[::ffff:192.0.2.1]:10250", true},
		{"https://192.0.2.1:10250", "[::]:10250", false},
		{"unix:///run/s", "127.0.0.1:10255", false},
	} {
		t.Run(test.address+" "+test.at, func(t *testing.T) {
			address, err := ParseAddress(test.address)
			if err != nil {
				t.Fatal(err)
			}
			if got := address.ListensAt(netip.MustParseAddrPort(test.at)); got != test.want {
				t.Errorf("%s at %s: %v", test.address, test.at, got)
			}
		})
	}
}
