package conn

import (
	"context"
	"net/http"
	"unicode/utf8"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// HTTPClient returns the client of an HTTP request, and the Drained of its cursor.
func HTTPClient(r *http.Request) (journal.Client, func(context.Context) error) {
	return ClientOf(r.Context(), r.UserAgent()), httpPace(r).Drained
}

// ClientOf returns the client of a request or a call.
func ClientOf(ctx context.Context, userAgent string) journal.Client {
	client := journal.Client{UserAgent: Cut(userAgent)}
	switch conn := From(ctx); {
	case conn == nil:
	case conn.peer.network.IsValid():
		client.Address, client.User = conn.RemoteAddr().String(), Cut(SubjectFrom(ctx).User)
	case conn.peer.known:
		client.PID, client.UID = conn.peer.pid, &conn.peer.uid
	}
	return client
}

// maxText is how many bytes of a text that a client chose are kept and shown.
const maxText = 256

// Cut returns the text without what is beyond maxText. It keeps no longer text in memory.
func Cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > maxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
