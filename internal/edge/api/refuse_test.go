package api

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/edge/shed"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/mpi"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// fake is engines and keys that take their time and let everybody in.
type fake struct {
	takes time.Duration
	asked atomic.Int64 // for keys
	fails error        // of a /check
	came  atomic.Int64 // bytes that the last operation of 3-D Secure 2 was given
}

func (f *fake) Authenticate(context.Context, string) (*account.Account, error) {
	f.asked.Add(1)
	return &account.Account{Merchant: new(account.Merchant)}, nil
}

func (f *fake) serve(ctx context.Context) ([]byte, error) {
	select {
	case <-time.After(f.takes):
		return []byte("{}"), nil
	case <-ctx.Done():
		return nil, errors.New("the caller is said to have gone")
	}
}

// engine is fake as an Engine.
type engine struct{ *fake }

func (e engine) Preauth(_ context.Context, _ *account.Account, body []byte) ([]byte, auth.Notes, error) {
	e.came.Store(int64(len(body)))
	answer, err := e.serve(context.Background())
	return answer, auth.Notes{}, err
}

func (e engine) Authenticate(ctx context.Context, _ *account.Account, body []byte) ([]byte, auth.Notes, error) {
	e.came.Store(int64(len(body)))
	answer, err := e.serve(ctx)
	return answer, auth.Notes{}, err
}

func (e engine) Result(ctx context.Context, _ *account.Account, body []byte) ([]byte, error) {
	e.came.Store(int64(len(body)))
	return e.serve(ctx)
}

func (e engine) WaitForResult(ctx context.Context, _ *account.Account, _ *auth.PendingError) ([]byte, error) {
	return e.serve(ctx)
}

func (e engine) Authentication(ctx context.Context, _ *account.Account, _ string) (*auth.Authentication, error) {
	_, err := e.serve(ctx)
	return new(auth.Authentication), err
}

func (e engine) WaitForAuthentication(ctx context.Context, acc *account.Account, id string) (*auth.Authentication, error) {
	return e.Authentication(ctx, acc, id)
}

func (e engine) Lookup(context.Context, *account.Account, []byte) (*auth.CardLookup, []api.Fault) {
	return new(auth.CardLookup), nil
}

func (engine) Create(context.Context, *account.Account, []byte) (*auth.Authentication, *session.BrowserAccess, error) {
	return nil, nil, session.ErrNoRanges
}

func (engine) SearchAuthentications(context.Context, *account.Account, journal.Query) ([]*auth.Authentication, string, error) {
	return nil, "", auth.ErrNoJournal
}

func (engine) Cancel(context.Context, *account.Account, string) (*auth.Authentication, error) {
	return nil, auth.ErrNoAuthentication
}

func (e engine) Explain(*account.Account, []byte, check.ExplainOptions) *check.Explanation {
	return new(check.Explanation)
}

// former is a fake with the operations of an MPI.
type former struct{ *fake }

func (f former) Enrolled(ctx context.Context, _ *account.Account, _ mpi.Enrollment) api.Enrollment {
	if _, err := f.serve(ctx); err != nil {
		return api.Enrollment{}
	}
	return api.Enrollment{Enrolled: "N", ECI: "6"}
}

func (f former) Check(ctx context.Context, _ *account.Account, _ string) (api.Checked, error) {
	_, err := f.serve(ctx)
	return api.Checked{Status: "Y"}, cmp.Or(f.fails, err)
}

// bodies are what the operations are asked.
var bodies = map[string]string{
	"/preauth": "{}", "/auth": "{}", "/postauth": "{}", "/check": "pares=x",
	"/enrolled": "amount=1&currency=EUR&order_id=1&card[number]=4000001234567890&card[expire_month]=12&card[expire_year]=2030&" +
		"merchant[acquirer_bin]=400551&merchant[id]=1&merchant[name]=Shop&merchant[country]=DK&merchant[url]=https://shop.example",
}

func newHandler(f *fake) *Handler {
	return &Handler{Engine: engine{f}, MPI: former{f}, Keys: f, Log: slog.New(slog.DiscardHandler)}
}

func ask(h http.Handler, path, key string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, body)
	r.Header.Set("APIKey", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// isMPI reports whether a path is one of 3-D Secure 1.0.2.
func isMPI(path string) bool { return cmp.Or(endpoints[path], noEndpoint).protocol == mpiProtocol{} }

// shut is a gate that admits nothing any more.
func shut() *shed.LoadShedder {
	all := uint64(0)
	g := shed.New(shed.Queue{Target: time.Second, Length: func() (waiting int, served uint64) {
		all++
		return 1e9, all
	}})
	for g.AdmittedShare(shed.High) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	return g
}

// unread is a body that must not be touched.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.EOF
}

// TestOverloadRefusesBeforeReading: a request that the load shedder does not admit is not read. It is refused in the
// form of its protocol, and counted.
func TestOverloadRefusesBeforeReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fake)
		h := newHandler(f)
		h.Gate = shut()
		counted := make(map[string]int)
		h.Refused = func(operation string, why Refusal) { counted[operation+" "+string(why)]++ }
		for _, path := range []string{"/preauth", "/auth", "/postauth", "/enrolled", "/check", "/nowhere"} {
			when := make(map[string]bool)
			for range 30 {
				w := ask(h, path, "k", unread{t})
				says := `"errorCode":"403"`
				if isMPI(path) {
					says = `"type":"unavailable"`
				}
				if w.Code != 503 || !strings.Contains(w.Body.String(), says) || w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
					t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
				}
				when[w.Header().Get("Retry-After")] = true
			}
			operation := strings.TrimPrefix(strings.Replace(path, "nowhere", "other", 1), "/")
			if n := counted[operation+" overload"]; n != 30 {
				t.Errorf("%s: %d counted: %v", path, n, counted)
			}
			if len(when) < 2 || when[""] {
				t.Errorf("%s: Retry-After %v, want several times", path, when)
			}
		}
		if f.asked.Load() > 0 {
			t.Error("a key was looked at")
		}
	})
}

// TestLastPlacesAreReserved: requests that begin an authentication leave a fifth of the places to others, and requests
// that continue one leave a tenth to those that conclude one.
func TestLastPlacesAreReserved(t *testing.T) {
	for _, tt := range []struct {
		most  int64
		class shed.Priority
		want  int64 // that get in
	}{
		{10, shed.Low, 8}, {10, shed.Middle, 9}, {10, shed.High, 10},
		{100, shed.Low, 80}, {100, shed.Middle, 90}, {100, shed.High, 100},
		{1, shed.Low, 1}, {9, shed.Low, 9}, {0, shed.Low, 1000},
	} {
		h := &Handler{MaxInFlight: tt.most}
		in := int64(0)
		for i := range 1000 {
			if _, why := h.admit(tt.class, &account.Merchant{Name: fmt.Sprint(i)}); why == "" {
				in++
			}
		}
		if in != tt.want || h.inFlight().Load() != tt.want {
			t.Errorf("%d places: %d of %v get in, %d are counted, want %d", tt.most, in, tt.class, h.inFlight().Load(), tt.want)
		}
		h.inFlight().Add(-1)
		if _, why := h.admit(tt.class, new(account.Merchant)); why != "" {
			t.Errorf("%d places: one has gone, and none gets in", tt.most)
		}
	}
}

// TestRefusalsInEachProtocol: a request that finds no place, or whose key has used up its rate, is refused in the form
// of its protocol and counted. It takes no place from others.
func TestRefusalsInEachProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the limit gains nothing meanwhile, however slow the machine is
		for path, body := range bodies {
			counted := make(map[string]int)
			h := newHandler(new(fake))
			h.MaxInFlight, h.Limits = 1, NewLimiter(2)
			h.Refused = func(operation string, why Refusal) { counted[operation+" "+string(why)]++ }
			for i, want := range []int{200, 503, 429} {
				h.inFlight().Store(int64(i)) // others
				w := ask(h, path, "k", strings.NewReader(body))
				if w.Code != want || want != 200 && (w.Header().Get("Retry-After") == "" || !json.Valid(w.Body.Bytes())) {
					t.Errorf("%s, %d others: %d %v %s, want %d", path, i, w.Code, w.Header(), w.Body, want)
				}
				if n := h.inFlight().Load(); n != int64(i) {
					t.Errorf("%s: %d places are taken, want %d", path, n, i)
				}
			}
			if operation := path[1:]; len(counted) != 2 || counted[operation+" in_flight"] != 1 || counted[operation+" rate_limit"] != 1 {
				t.Errorf("%s: %v", path, counted)
			}
		}
	})
}

// TestPlacesByPath: the last places are for what comes later in an authentication.
func TestPlacesByPath(t *testing.T) {
	for path, most := range map[string]int64{"/preauth": 8, "/enrolled": 8, "/auth": 9, "/postauth": 10, "/check": 10} {
		h := newHandler(new(fake))
		h.MaxInFlight = 10
		for others := range int64(11) {
			h.inFlight().Store(others)
			want := 200
			if others >= most {
				want = 503
			}
			if w := ask(h, path, "k", strings.NewReader(bodies[path])); w.Code != want {
				t.Errorf("%s beside %d others: %d, want %d", path, others, w.Code, want)
			}
		}
	}
}

// TestRequestsInFlightAreNotEvicted: when there are too many connections, none is evicted on which a whole request has
// come.
func TestRequestsInFlightAreNotEvicted(t *testing.T) {
	for _, path := range []string{"/auth", "/postauth", "/enrolled", "/check"} {
		synctest.Test(t, func(t *testing.T) {
			l := make(pipes)
			s := listen.NewServer(newHandler(&fake{takes: 9 * time.Second}), 10*time.Second, slog.New(slog.DiscardHandler))
			conns := listen.Limiter{Max: 1}
			conns.Attach(s)
			go s.Serve(conns.Listener(l)) // ends with Close
			defer s.Close()
			ours, theirs := net.Pipe()
			defer ours.Close()
			l <- theirs
			_, _ = fmt.Fprintf(ours, "POST %s HTTP/1.1\r\nHost: x\r\nAPIKey: k\r\nContent-Length: %d\r\n\r\n%s", path, len(bodies[path]), bodies[path])
			synctest.Wait()
			other, refused := net.Pipe()
			defer other.Close()
			l <- refused
			res, err := http.ReadResponse(bufio.NewReader(ours), nil)
			if err != nil || res.StatusCode != 200 {
				t.Errorf("%s: %v, %v", path, res, err)
			}
		})
	}
}

// TestErrosOfTheListener: an answer of the listener itself is one Erro and nothing more.
func TestErrosOfTheListener(t *testing.T) {
	for _, tt := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"POST", "/nowhere", "{}", 404,
			"There is no such operation; there are /preauth, /auth, /postauth, /authentications, /outcome, /lookup, /explain, /webhook-endpoints, /events, /enrolled and /check"},
		{"GET", "/nowhere", "", 404,
			"There is no such operation; there are /preauth, /auth, /postauth, /authentications, /outcome, /lookup, /explain, /webhook-endpoints, /events, /enrolled and /check"},
		{"POST", "/%70reauth", "{}", 404,
			"There is no such operation; there are /preauth, /auth, /postauth, /authentications, /outcome, /lookup, /explain, /webhook-endpoints, /events, /enrolled and /check"},
		{"POST", "/%65nrolled", "{}", 404,
			"There is no such operation; there are /preauth, /auth, /postauth, /authentications, /outcome, /lookup, /explain, /webhook-endpoints, /events, /enrolled and /check"},
		{"GET", "/preauth", "", 405, "The method is POST"},
		{"POST", "/preauth", strings.Repeat(" ", maxBody+1), 413, "The body is larger than 65536 bytes"},
		{"POST", "/auth", strings.Repeat(" ", maxAuthBody+1), 413, "The body is larger than 262144 bytes"},
	} {
		for _, told := range []bool{true, false} { // how long the body is
			var body io.Reader = strings.NewReader(tt.body)
			if !told {
				body = io.MultiReader(body)
			}
			w := httptest.NewRecorder()
			newHandler(new(fake)).ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, body))
			var erro map[string]string
			if err := json.Unmarshal(w.Body.Bytes(), &erro); err != nil || w.Code != tt.code || erro["errorDetail"] != tt.says ||
				erro["errorComponent"] != "S" || erro["messageVersion"] != "2.2.0" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s %s: %d %v %s, %v", tt.method, tt.path, w.Code, w.Header(), w.Body, err)
			}
			if closes := w.Header().Get("Connection") == "close"; closes != (tt.code == 413) {
				t.Errorf("%s %s: the connection ends: %t", tt.method, tt.path, closes)
			}
		}
	}
}

// TestErrorsOfCheck: the answer says which party is at fault, and whether another try may help.
func TestErrorsOfCheck(t *testing.T) {
	for _, tt := range []struct {
		fails  error
		code   int
		kind   string
		repeat string
	}{
		{&mpi.ParamError{Param: "pares", Type: mpi.InvalidParam}, 400, "invalid_param", ""},
		{fmt.Errorf("store: %w", mpi.ErrUnavailable), 503, "unavailable", "1"},
		{errors.New("a fault of ours"), 500, "internal", ""},
	} {
		var log strings.Builder
		h := newHandler(&fake{fails: tt.fails})
		h.Log = slog.New(slog.NewTextHandler(&log, nil))
		w := ask(h, "/check", "k", strings.NewReader(bodies["/check"]))
		if w.Code != tt.code || !strings.Contains(w.Body.String(), `"type":"`+tt.kind+`"`) || w.Header().Get("Retry-After") != tt.repeat {
			t.Errorf("%v: %d %v %s", tt.fails, w.Code, w.Header(), w.Body)
		}
		if logged := strings.Contains(log.String(), tt.fails.Error()); logged != (tt.code == 500) {
			t.Errorf("%v: in the log: %s", tt.fails, &log)
		}
	}
}

// TestRateLimitPerKey: a key gets its rate and no more, whatever other keys do, and they get theirs whatever it does.
func TestRateLimitPerKey(t *testing.T) {
	for _, sent := range []int{9, 10, 11} { // of a limit of 10
		synctest.Test(t, func(t *testing.T) {
			h := newHandler(new(fake))
			h.Limits = NewLimiter(10)
			refused := 0
			h.Refused = func(_ string, why Refusal) {
				if why == RateLimit {
					refused++
				}
			}
			for second := range 3 {
				for i := range 200 { // twenty times its share
					ask(h, "/preauth", "greedy", strings.NewReader("{}"))
					if i == 100 {
						for n := range sent {
							want := 200
							if n >= 10 {
								want = 429
							}
							w := ask(h, "/preauth", "modest", strings.NewReader("{}"))
							if w.Code != want || want == 429 && w.Header().Get("Retry-After") == "" {
								t.Errorf("second %d, request %d: %d %v, want %d", second, n+1, w.Code, w.Header(), want)
							}
						}
					}
				}
				time.Sleep(time.Second)
			}
			if want := 3 * (190 + max(0, sent-10)); refused != want {
				t.Errorf("%d refused, want %d", refused, want)
			}
		})
	}
}

// TestG3aCapitalsShareTheRateLimit: a key has one limit, however its letters are written.
func TestG3aCapitalsShareTheRateLimit(t *testing.T) {
	h := newHandler(new(fake))
	h.Limits = NewLimiter(1.0 / 3600)
	for i, key := range []string{"greedy", "GREEDY", "gReEdY"} {
		want := 429
		if i == 0 {
			want = 200
		}
		if w := ask(h, "/preauth", key, strings.NewReader("{}")); w.Code != want {
			t.Errorf("key %q: status %d, want %d", key, w.Code, want)
		}
	}
}

// pipes is a listener in memory, so that time may be a bubble's.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// connect returns a connection to a server of h, and what ends both.
func connect(h http.Handler) (net.Conn, func()) {
	l := make(pipes)
	s := listen.NewServer(h, 10*time.Second, slog.New(slog.DiscardHandler))
	go s.Serve(l) // ends with Close
	ours, theirs := net.Pipe()
	l <- theirs
	return ours, func() {
		_ = ours.Close()
		_ = s.Close()
	}
}

// exchange sends a request to a server of h, and the body a while later. It returns the status of the answer and when
// it came.
func exchange(t *testing.T, h http.Handler, path string, after time.Duration) (status int, took time.Duration) {
	ours, end := connect(h)
	defer end()
	start, done := time.Now(), make(chan struct{})
	defer close(done)
	go func() {
		_, _ = fmt.Fprintf(ours, "POST %s HTTP/1.1\r\nHost: x\r\nAPIKey: k\r\nAuthorization: Basic azo=\r\nContent-Length: %d\r\n\r\n", path, len(bodies[path]))
		select {
		case <-time.After(after):
		case <-done:
		}
		_, _ = io.WriteString(ours, bodies[path])
	}()
	res, err := http.ReadResponse(bufio.NewReader(ours), nil)
	if err != nil {
		return 0, time.Since(start)
	}
	return res.StatusCode, time.Since(start)
}

// TestBodyHasFiveSecondsToArrive: a body has five seconds to come; once it is there, an operation may
// take longer than that.
func TestBodyHasFiveSecondsToArrive(t *testing.T) {
	for path := range bodies {
		for after, want := range map[time.Duration]int{
			listen.RequestTime - time.Millisecond: 200, listen.RequestTime + time.Millisecond: 400, time.Minute: 400,
		} {
			synctest.Test(t, func(t *testing.T) {
				status, took := exchange(t, newHandler(new(fake)), path, after)
				if status != want || took > listen.RequestTime+time.Second {
					t.Errorf("%s, body after %v: %d after %v, want %d", path, after, status, took, want)
				}
			})
		}
		synctest.Test(t, func(t *testing.T) {
			if status, took := exchange(t, newHandler(&fake{takes: 9 * time.Second}), path, 0); status != 200 || took != 9*time.Second {
				t.Errorf("%s: %d after %v, want 200 after 9 s", path, status, took)
			}
		})
	}
}

// noKeys knows no key.
type noKeys struct{}

func (noKeys) Authenticate(context.Context, string) (*account.Account, error) {
	return nil, account.ErrUnknownKey
}

// TestG5LastRequestIsAnswered: a client sends its body in pieces, and has said that the request is its last on the
// connection. It gets the answer even if the request is refused before its body is read: the connection is not closed
// while it sends (G2, G5).
func TestG5LastRequestIsAnswered(t *testing.T) {
	over := strings.Repeat(" ", maxBody+1)
	for name, tt := range map[string]struct {
		change       func(h *Handler)
		method, body string
		status       int
		only         string // of all paths; empty: each
	}{
		"unknown key": {func(h *Handler) { h.Keys = noKeys{} }, "POST", over, 401, ""},
		"rate limit": {func(h *Handler) {
			h.Limits = NewLimiter(1)
			h.Limits.Allow("k")
		}, "POST", over, 429, ""},
		"no place":  {func(h *Handler) { h.MaxInFlight, h.InFlight = 1, new(atomic.Int64); h.InFlight.Add(1) }, "POST", over, 503, ""},
		"method":    {func(*Handler) {}, "PUT", over, 405, ""},
		"path":      {func(*Handler) {}, "POST", over, 404, "/nowhere"},
		"too large": {func(h *Handler) { h.AuthBody = maxBody }, "POST", over, 413, ""},
	} {
		for path := range bodies {
			for _, head := range []string{
				"HTTP/1.1\r\nConnection: close", "HTTP/1.1\r\nConnection: TE, close\r\nTE: deflate", "HTTP/1.0", "HTTP/1.0\r\nConnection: keep-alive", "HTTP/1.1",
			} {
				synctest.Test(t, func(t *testing.T) {
					h := newHandler(new(fake))
					tt.change(h)
					ours, end := connect(h)
					defer end()
					var res *http.Response
					var unread error
					read := make(chan struct{})
					go func() {
						defer close(read)
						res, unread = http.ReadResponse(bufio.NewReader(ours), nil)
					}()
					_, err := fmt.Fprintf(ours, "%s %s %s\r\nHost: x\r\nAPIKey: k\r\nAuthorization: Basic azo=\r\nContent-Length: %d\r\n\r\n",
						tt.method, cmp.Or(tt.only, path), head, len(tt.body))
					for part := range slices.Chunk([]byte(tt.body), 8<<10) {
						synctest.Wait()
						if err == nil {
							_, err = ours.Write(part)
						}
					}
					if err != nil {
						t.Fatalf("%s, %s, %q: the body: %v", name, path, head, err)
					}
					if <-read; unread != nil || res.StatusCode != tt.status {
						t.Errorf("%s, %s, %q: %v, %v, want %d", name, path, head, res, unread, tt.status)
					}
				})
			}
			if tt.only != "" {
				break
			}
		}
	}
}

// TestTooLargeBodyIsDrained: a client that sends too much in HTTP/2 may send all of it. OkHttp drops an answer that
// comes earlier and is followed by a reset of the stream.
func TestTooLargeBodyIsDrained(t *testing.T) {
	for path := range bodies {
		for _, told := range []bool{true, false} { // how long the body is
			body := strings.NewReader(strings.Repeat(" ", maxAuthBody+8<<10))
			r := httptest.NewRequest(http.MethodPost, path, io.MultiReader(body))
			r.ProtoMajor, r.ProtoMinor = 2, 0
			if told {
				r.ContentLength = int64(body.Len())
			}
			w := httptest.NewRecorder()
			newHandler(new(fake)).ServeHTTP(w, r)
			if w.Code != 413 || body.Len() > 0 {
				t.Errorf("%s, length told %t: %d with %d bytes unread, want 413 and none", path, told, w.Code, body.Len())
			}
		}
	}
}

// TestRefusalDoesNotWaitForTheBody: the answer to a refused request does not wait for a body that does not come (G2,
// M1), and the request holds no place meanwhile.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	for path := range bodies {
		for name, tt := range map[string]struct {
			change func(h *Handler)
			header string
		}{
			"unknown key":       {func(h *Handler) { h.Keys = noKeys{} }, ""},
			"unknown key, last": {func(h *Handler) { h.Keys = noKeys{} }, "Connection: close\r\n"},
			"rate limit": {func(h *Handler) {
				h.Limits = NewLimiter(1)
				h.Limits.Allow("k")
			}, ""},
			"too large":       {func(h *Handler) { h.Body, h.AuthBody = 9, 9 }, ""},
			"too large, last": {func(h *Handler) { h.Body, h.AuthBody = 9, 9 }, "Connection: close\r\n"},
		} {
			synctest.Test(t, func(t *testing.T) {
				h := newHandler(new(fake))
				tt.change(h)
				ours, end := connect(h)
				defer end()
				start, said := time.Now(), bufio.NewReader(ours)
				const length = 10
				for range 2 { // the connection is good for another, but after the last
					_, err := fmt.Fprintf(ours,
						"POST %s HTTP/1.1\r\nHost: x\r\nAPIKey: k\r\nAuthorization: Basic azo=\r\n%sContent-Length: %d\r\n\r\n", path, tt.header, length)
					if err != nil {
						t.Fatal(err)
					}
					res, err := http.ReadResponse(said, nil)
					if err != nil || res.StatusCode < 400 || time.Since(start) > 0 {
						t.Fatalf("%s, %s: %v, %v, after %v", name, path, res, err, time.Since(start))
					}
					if n := h.inFlight().Load(); n != 0 {
						t.Errorf("%s, %s: %d places are taken by what has its answer", name, path, n)
					}
					if res.Close {
						break
					}
					_, _ = io.Copy(io.Discard, res.Body)
					if _, err := ours.Write(make([]byte, length)); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// around is a response within another, as the server's own is in life.
type around struct{ http.ResponseWriter }

func (w around) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestRestOfABodyIsNoRequest: if the body of a refused request does not come to its end, the bytes that follow are not
// read as a request. Otherwise a client, or a proxy in front of us, that sees the end of that body elsewhere would get
// the answer to another request.
func TestRestOfABodyIsNoRequest(t *testing.T) {
	const second = "POST /preauth HTTP/1.1\r\nHost: x\r\nAPIKey: k\r\nContent-Length: 2\r\n\r\n{}"
	chunked := "HTTP/1.1\r\nHost: x\r\nAPIKey: k\r\nTransfer-Encoding: chunked\r\n\r\n"
	within := fmt.Sprintf("Host: x\r\nAPIKey: k\r\nContent-Length: %d\r\n", len(second))
	long := fmt.Sprintf("HTTP/1.1\r\nHost: x\r\nAPIKey: k\r\nContent-Length: %d\r\n\r\n", maxDrain+len(second))
	for refusal, change := range map[string]func(h *Handler){
		"unknown key": func(h *Handler) { h.Keys = noKeys{} },
		"rate limit": func(h *Handler) {
			h.Limits = NewLimiter(1)
			h.Limits.Allow("k")
		},
		"no place": func(h *Handler) { h.MaxInFlight, h.InFlight = 1, new(atomic.Int64); h.InFlight.Add(1) },
	} {
		for name, tt := range map[string]struct {
			head  string // from the version on
			after time.Duration
			rest  string
		}{
			"chunk without length":     {chunked, 0, "ZZ\r\n" + second},
			"chunk without end":        {chunked, 0, "2\r\n{}XX" + second},
			"chunk that is late":       {chunked + "5\r\n{}", listen.RequestTime + time.Second, second},
			"chunk of a long line":     {chunked, 0, "2;" + strings.Repeat("x", 5000) + "\r\n" + second},
			"trailer":                  {chunked, 0, "0\r\nno trailer\r\n\r\n" + second},
			"length that is late":      {"HTTP/1.1\r\n" + within + "\r\n", listen.RequestTime + time.Second, second},
			"kept in 1.0":              {"HTTP/1.0\r\nConnection: keep-alive\r\n" + within + "\r\n", listen.RequestTime + time.Second, second},
			"kept in 1.0, not asked":   {"HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n" + within + "\r\n", listen.RequestTime + time.Second, second},
			"not asked":                {"HTTP/1.1\r\nExpect: 100-continue\r\n" + within + "\r\n", listen.RequestTime + time.Second, second},
			"longer than what we hear": {long, 0, strings.Repeat(" ", maxDrain) + second},
			"the same in chunks":       {chunked, 0, fmt.Sprintf("%x\r\n%s\r\n", maxDrain, strings.Repeat(" ", maxDrain)) + second},
			"and the end is late":      {long + strings.Repeat(" ", maxDrain), listen.RequestTime + time.Second, second},
			"and the end is none":      {chunked, 0, fmt.Sprintf("%x\r\n%s\r\n", maxDrain+1, strings.Repeat(" ", maxDrain+1)) + "ZZ\r\n" + second},
		} {
			synctest.Test(t, func(t *testing.T) {
				h := newHandler(new(fake))
				change(h)
				ours, end := connect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(around{w}, r) }))
				defer end()
				wrote := make(chan struct{})
				go func() {
					defer close(wrote)
					_, _ = io.WriteString(ours, "POST /auth "+tt.head)
					time.Sleep(tt.after)
					_, _ = io.WriteString(ours, tt.rest)
				}()
				start := time.Now()
				said, _ := io.ReadAll(ours)
				if n := strings.Count(string(said), "HTTP/1."); n != 1 || time.Since(start) >= listen.IdleTime {
					t.Errorf("%s, %s: %d answers, and the end after %v, want 1 and soon:\n%s", refusal, name, n, time.Since(start), said)
				}
				if strings.HasPrefix(tt.head, long) && !strings.Contains(string(said), "Connection: close") {
					t.Errorf("%s, %s: the connection ends, and the answer does not say so:\n%s", refusal, name, said)
				}
				_ = ours.Close()
				<-wrote
			})
		}
	}
}

// TestHalfClosedConnectionIsAnswered: a client that ends its side of the connection after the request still gets its
// answer. It never gets 200 for a request that failed because the client seems to have gone.
func TestHalfClosedConnectionIsAnswered(t *testing.T) {
	for path, want := range map[string]string{
		"/postauth": "{}", "/preauth": "{}", "/auth": "", // the fake gives an /auth up
		"/enrolled": `"enrolled":"N","eci":"6","error":null}`, "/check": `"status":"Y","xid":""}`,
	} {
		engines := &fake{takes: 50 * time.Millisecond}
		if want == "" {
			engines.takes = time.Hour // until the caller is said to have gone
		}
		h := newHandler(engines)
		s := httptest.NewServer(h)
		defer s.Close()
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAPIKey: k\r\nContent-Length: %d\r\n\r\n%s", path, len(bodies[path]), bodies[path])
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(c)
		c.Close()
		if got := string(said); !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
		waittest.Until(t, "all places to be free", func() bool { return h.inFlight().Load() == 0 })
	}
}

// TestG6UnknownPathNeedsNoKey: a path that does not exist is 404 with any key and without one, so that a browser that
// asks for files by itself gets the true answer.
func TestG6UnknownPathNeedsNoKey(t *testing.T) {
	h := newHandler(new(fake))
	h.Keys = noKeys{}
	for _, path := range []string{"/nowhere", "/favicon.ico", "/docs", "/preauth/"} {
		for _, key := range []string{"", "k"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			if key != "" {
				r.Header.Set("APIKey", key)
			}
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != http.StatusNotFound {
				t.Errorf("%s with the key %q: %d, want 404", path, key, w.Code)
			}
		}
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/preauth", strings.NewReader("{}"))); w.Code != http.StatusUnauthorized {
		t.Errorf("a path that there is, without a key: %d, want 401", w.Code)
	}
}
