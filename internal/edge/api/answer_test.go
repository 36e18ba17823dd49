package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	edgeapi "github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// says answers every operation with so many bytes.
type says int

func (n says) Preauth(_ context.Context, _ *account.Account, _ []byte) ([]byte, auth.Notes, error) {
	return n.answer(), auth.Notes{}, nil
}

func (n says) answer() []byte { return bytes.Repeat([]byte("x"), int(n)) }

func (n says) Authenticate(context.Context, *account.Account, []byte) ([]byte, auth.Notes, error) {
	return n.answer(), auth.Notes{}, nil
}

func (n says) Result(context.Context, *account.Account, []byte) ([]byte, error) {
	return n.answer(), nil
}

func (n says) WaitForResult(context.Context, *account.Account, *auth.PendingError) ([]byte, error) {
	return n.answer(), nil
}

func (n says) Authentication(context.Context, *account.Account, string) (*auth.Authentication, error) {
	return new(auth.Authentication), nil
}

func (n says) WaitForAuthentication(context.Context, *account.Account, string) (*auth.Authentication, error) {
	return new(auth.Authentication), nil
}

func (n says) Lookup(context.Context, *account.Account, []byte) (*auth.CardLookup, []api.Fault) {
	return new(auth.CardLookup), nil
}

func (says) Create(context.Context, *account.Account, []byte) (*auth.Authentication, *session.BrowserAccess, error) {
	return nil, nil, session.ErrNoRanges
}

func (says) SearchAuthentications(context.Context, *account.Account, journal.Query) ([]*auth.Authentication, string, error) {
	return nil, "", auth.ErrNoJournal
}

func (says) Cancel(context.Context, *account.Account, string) (*auth.Authentication, error) {
	return nil, auth.ErrNoAuthentication
}

func (says) CreateForAgent(context.Context, *account.Account, session.Delegation, []byte) (*auth.Authentication, error) {
	return nil, auth.ErrNoAuthentication
}

func (says) AuthenticateForAgent(context.Context, *account.Account, session.Delegation, string, []byte) (*auth.Authentication, error) {
	return nil, auth.ErrNoAuthentication
}

func (says) AgentAuthentication(context.Context, *account.Account, string) (*auth.Authentication, error) {
	return nil, auth.ErrNoAuthentication
}

func (n says) Explain(*account.Account, []byte, check.ExplainOptions) *check.Explanation {
	return new(check.Explanation)
}

// TestI6AnswersHaveContentLength: an answer of any length says how long it is (I6). So do answers about as long as the
// buffer of net/http, which by itself counts only what fits into the buffer.
func TestI6AnswersHaveContentLength(t *testing.T) {
	for _, n := range []int{1, 2047, 2048, 2049, 4096, 100_000} {
		server := httptest.NewServer(&edgeapi.Handler{Engine: says(n), Keys: anyone{}, Log: slog.New(slog.DiscardHandler)})
		for _, path := range []string{"/preauth", "/auth", "/postauth"} {
			res, err := http.Post(server.URL+path, "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || len(body) != n || res.ContentLength != int64(n) || res.TransferEncoding != nil {
				t.Errorf("%s of %d bytes: %d came, announced %d, %v, %v", path, n, len(body), res.ContentLength, res.TransferEncoding, err)
			}
		}
		server.Close()
	}
}

// TestI6RefusalsHaveContentLength: a refusal has one, too, if it ends its connection and is sent before the rest of the
// client's body was read.
func TestI6RefusalsHaveContentLength(t *testing.T) {
	server := httptest.NewServer(&edgeapi.Handler{Engine: says(1), Keys: only("good"), Log: slog.New(slog.DiscardHandler)})
	defer server.Close()
	for _, tt := range []struct {
		method, path, key string
		size, status      int
	}{
		{"POST", "/auth", "wrong", 2, 401}, {"POST", "/auth", "wrong", 512 << 10, 401}, {"POST", "/check", "wrong", 2, 401},
		{"POST", "/nowhere", "good", 2, 404}, {"PUT", "/auth", "good", 2, 405}, {"PUT", "/check", "good", 2, 405},
		{"POST", "/preauth", "good", 64<<10 + 1, 413}, {"POST", "/check", "good", 64<<10 + 1, 413},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, strings.NewReader(strings.Repeat(" ", tt.size)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("APIKey", tt.key)
		req.SetBasicAuth(tt.key, "")
		req.Close = true
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != tt.status || res.ContentLength != int64(len(body)) || len(body) == 0 || res.TransferEncoding != nil {
			t.Errorf("%s %s with a %s key and %d bytes: %d, %d of %d bytes, %v, %v",
				tt.method, tt.path, tt.key, tt.size, res.StatusCode, len(body), res.ContentLength, res.TransferEncoding, err)
		}
	}
}

// TestAnswersHaveOneDate: an answer has one Date, the second in which it was made.
func TestAnswersHaveOneDate(t *testing.T) {
	server := httptest.NewServer(&edgeapi.Handler{Engine: says(1), Keys: anyone{}, Log: slog.New(slog.DiscardHandler)})
	defer server.Close()
	for range 2 {
		before := time.Now().Truncate(time.Second)
		res, err := http.Post(server.URL+"/preauth", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		dates := res.Header.Values("Date")
		if made, err := http.ParseTime(strings.Join(dates, ", ")); err != nil || made.Before(before) || made.After(time.Now()) {
			t.Errorf("Date %q, want one since %v", dates, before)
		}
	}
}

// TestConnectionIsKeptAfterABody: after a body of up to 8 KiB, which was read in one piece, the connection stays open,
// and nothing of the body is taken for the next request.
func TestConnectionIsKeptAfterABody(t *testing.T) {
	server := httptest.NewServer(&edgeapi.Handler{Engine: says(1), Keys: anyone{}, Log: slog.New(slog.DiscardHandler)})
	defer server.Close()
	// The client of net/http opens another connection when a busy machine holds up the goroutine that writes its request.
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for _, size := range []int{1, 8<<10 - 1, 8 << 10, 8<<10 + 1, 1} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/preauth", strings.NewReader(strings.Repeat(" ", size)))
		if err != nil {
			t.Fatal(err)
		}
		if err := req.Write(conn); err != nil {
			t.Fatalf("a body of %d bytes: %v", size, err)
		}
		res, err := http.ReadResponse(answers, req)
		if err != nil {
			t.Fatalf("a body of %d bytes: %v", size, err)
		}
		answer, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK || string(answer) != "x" || res.Close {
			t.Errorf("a body of %d bytes: %s %q %v; the connection ends: %t", size, res.Status, answer, err, res.Close)
		}
	}
}

// TestG8BodyTooLargeHTTP2: a body over the limit ends its own request, not the
// connection that others are on (G5, G8).
func TestG8BodyTooLargeHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(&edgeapi.Handler{Engine: says(1), Keys: anyone{}, Log: slog.New(slog.DiscardHandler)})
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for _, path := range []string{"/preauth", "/postauth", "/enrolled", "/check"} {
		for _, known := range []bool{true, false} {
			var body io.Reader = strings.NewReader(strings.Repeat(" ", 64<<10+1))
			if !known {
				body = io.MultiReader(body) // has no length that it could announce
			}
			reused := false
			trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused },
			})
			for i, body := range []io.Reader{strings.NewReader("{}"), body, strings.NewReader("{}")} {
				req, err := http.NewRequestWithContext(trace, http.MethodPost, server.URL+path, body)
				if err != nil {
					t.Fatal(err)
				}
				req.SetBasicAuth("key", "")
				res, err := server.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || res.ProtoMajor != 2 {
					t.Errorf("%s %d: %s, %q, %v", path, i, res.Proto, answer, err)
				}
				if i == 1 && (res.StatusCode != http.StatusRequestEntityTooLarge || !json.Valid(answer)) {
					t.Errorf("%s: %d %q, want 413 with JSON", path, res.StatusCode, answer)
				}
				if i == 2 && !reused {
					t.Errorf("%s, length told %t: the connection has ended with a body that was too large", path, known)
				}
			}
		}
	}
}

// TestHeaderTooLong: net/http itself refuses headers that are too long, and not in JSON. The pages and the description
// of the API say so.
func TestHeaderTooLong(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	h := &edgeapi.Handler{Engine: says(1), Keys: anyone{}, Log: slog.New(slog.DiscardHandler)}
	server.Config = listen.NewServer(h, time.Second, slog.New(slog.DiscardHandler))
	server.Start()
	defer server.Close()
	for size, want := range map[int]int{8 << 10: http.StatusOK, 32 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/preauth", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("APIKey", "key")
		req.Header.Set("X-Long", strings.Repeat("x", size))
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if kind := res.Header.Get("Content-Type"); res.StatusCode != want || want != http.StatusOK && kind != "text/plain; charset=utf-8" {
			t.Errorf("a header of %d bytes: %s of type %q", size, res.Status, kind)
		}
	}
}
