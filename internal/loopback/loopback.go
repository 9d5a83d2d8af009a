// Package loopback has the rules of servers on loopback addresses that do not authenticate.
package loopback

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Name is the name of the loopback addresses.
const Name = "localhost"

// Host reports whether a host without its port is a loopback address, or its name.
func Host(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, Name) || err == nil && ip.Unmap().IsLoopback()
}

// WebPage returns why a request is that of a web page in a browser; "" if it is not. A page can
// have a name that resolves to a loopback address (DNS rebinding). Its requests have that name
// as their host. Requests to another host than that of the page are marked by the browser.
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
