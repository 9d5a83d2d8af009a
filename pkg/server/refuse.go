package server

import (
	"net/http"

	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// refuser serves connections beyond the limit. It serves what handle adds, which is health,
// because probes must not fail if there are many clients. It refuses all other requests.
func refuser(handle func(respond.Router)) *http.Server {
	mux := http.NewServeMux()
	handle(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		respond.Status(w, respond.TooMany(conn.From(r.Context()).Refusal()))
	})
	server := &http.Server{Handler: mux, ReadTimeout: conn.RefusalTime, WriteTimeout: conn.RefusalTime}
	server.SetKeepAlivesEnabled(false)
	return server
}

// refuseAll adds nothing to a refuser. Its clients would have to authenticate for health.
func refuseAll(respond.Router) {}
