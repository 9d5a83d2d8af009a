// Package loopback protects servers without authentication on loopback addresses from web pages in a browser.
package loopback

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Name is the host name of the loopback addresses.
const Name = "localhost"

// Host reports whether a host, without a port, is a loopback address or Name.
func Host(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, Name) || err == nil && ip.Unmap().IsLoopback()
}

// WebPage returns why a request must be from a web page in a browser; empty if it is not. The host name of a page can resolve
// to a loopback address (DNS rebinding). Then its requests have that name as their host. The browser marks all other requests
// of pages with headers.
func WebPage(r *http.Request) (why string) {
	host := (&url.URL{Host: r.Host}).Hostname()
	if r.Host != "" && !Host(host) { // HTTP/1.0 has no host
		return fmt.Sprintf("the host of the request is %q: expected localhost or a loopback address", r.Host)
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return "requests of web pages are not served: the request has Sec-Fetch-Site: " + site
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return fmt.Sprintf("requests of web pages are not served: the request has Origin: %q", origin)
	}
	return ""
}
