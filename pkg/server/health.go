package server

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// Check is one health check.
type Check struct {
	Name string
	// Check returns the fault, or nil.
	Check func() error
}

// healthHandler answers as the health endpoints of Kubernetes do: with "ok", or with a line
// for each check if a check fails or the query has verbose. failed is the status code if a
// check fails.
func healthHandler(name string, failed int, checks []Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var report strings.Builder
		healthy := true
		for _, c := range checks {
			if err := c.Check(); err != nil {
				healthy = false
				fmt.Fprintf(&report, "[-]%s failed: %v\n", c.Name, err)
			} else {
				fmt.Fprintf(&report, "[+]%s ok\n", c.Name)
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, verbose := r.URL.Query()["verbose"]
		body := "ok"
		switch {
		case !healthy:
			w.WriteHeader(failed)
			body = report.String() + name + " check failed\n"
		case verbose:
			body = report.String() + name + " check passed\n"
		}
		_, _ = w.Write([]byte(body)) // the client may have gone away
	}
}

// ping is the check that the server answers.
var ping = Check{Name: "ping", Check: func() error { return nil }}

// unready returns the first failure of the checks of /readyz, or nil.
func (s *Server) unready() error {
	for _, c := range s.opts.Ready {
		if err := c.Check(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) handleHealth(mux respond.Router) {
	live := append([]Check{ping}, s.opts.Live...)
	mux.HandleFunc("/healthz", healthHandler("healthz", http.StatusInternalServerError, live))
	mux.HandleFunc("/livez", healthHandler("livez", http.StatusInternalServerError, live))
	mux.HandleFunc("/readyz", healthHandler("readyz", http.StatusServiceUnavailable, append([]Check{ping}, s.opts.Ready...)))
}
