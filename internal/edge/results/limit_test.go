package results

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

// TestLimitHoldsTheTables: every message that the tables allow fits into the limit, with a quarter of its length to
// spare.
func TestLimitHoldsTheTables(t *testing.T) {
	for _, v := range message.Versions() {
		for _, typ := range []message.Type{message.RReq, message.OReq, message.Erro} {
			if !typ.In(v) {
				continue
			}
			longest, members := messagetest.Longest(typ, v, 1, 0)
			wide, _ := messagetest.Longest(typ, v, 4, 0)
			t.Logf("%s %s: %d bytes, %d if every character takes four, %d members", v, typ, longest, wide, members)
			if longest*5/4 > maxBody || members > 1000 {
				t.Errorf("%s %s: may have %d bytes and %d members", v, typ, longest, members)
			}
		}
	}
}

// counted counts the bytes that were received.
type counted struct{ bytes int }

func (c *counted) Receive(_ context.Context, _ []string, body []byte) auth.Receipt {
	c.bytes = len(body)
	return auth.Receipt{Body: []byte("{}")}
}

// TestRefusedBeforeTheEngine: the engine does not see requests of a client that no longer belongs to a directory, nor
// requests that are not POST.
func TestRefusedBeforeTheEngine(t *testing.T) {
	trust, cert := member(t)
	for _, tt := range []struct {
		trust  *certs.Trust
		method string
		want   int
	}{
		{trust, http.MethodPost, http.StatusOK},
		{trust, http.MethodPut, http.StatusMethodNotAllowed},
		{&certs.Trust{Now: time.Now}, http.MethodPost, http.StatusForbidden},
	} {
		got := new(counted)
		h := &Handler{Engine: got, Trust: tt.trust, Log: slog.New(slog.DiscardHandler)}
		r := httptest.NewRequest(tt.method, "/results", strings.NewReader("{}"))
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if taken := got.bytes > 0; w.Code != tt.want || taken != (tt.want == http.StatusOK) {
			t.Errorf("%s: %d, the engine has it: %t", tt.method, w.Code, taken)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control: %q", tt.method, got)
		}
	}
}

// A mad engine panics with a text that must not be shown.
type mad struct{ says any }

func (m mad) Receive(context.Context, []string, []byte) auth.Receipt { panic(m.says) }

// member is a Trust, and a certificate of a directory of its.
func member(t *testing.T) (*certs.Trust, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader,
		&x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}, &x509.Certificate{}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &certs.Trust{Clients: []certs.Client{{Scheme: "visa", CA: pool}}, Now: time.Now}, cert
}

// TestBodySizes: a message is accepted up to the limit. The configuration may raise the limit but not lower it, for a
// result comes once.
func TestBodySizes(t *testing.T) {
	trust, cert := member(t)
	for _, body := range []int64{0, 16 << 10, maxBody, maxBody + 1000} {
		limit := max(int(body), maxBody)
		for _, size := range []int{limit - 1, limit, limit + 1} {
			for _, chunked := range []bool{false, true} {
				got := new(counted)
				h := &Handler{Engine: got, Trust: trust, Body: body, Memory: semaphore.NewWeighted(LongMessages), Log: slog.New(slog.DiscardHandler)}
				var sent io.Reader = strings.NewReader(strings.Repeat(" ", size))
				if chunked {
					sent = io.MultiReader(sent)
				}
				r := httptest.NewRequest(http.MethodPost, "/results", sent)
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				want, taken := 200, size
				if size > limit {
					want, taken = 413, 0
				}
				if w.Code != want || got.bytes != taken {
					t.Errorf("limit %d, %d bytes, chunked %t: %d, %d received", body, size, chunked, w.Code, got.bytes)
				}
			}
		}
	}
}

// A slow engine takes a second for each message.
type slow struct{}

func (slow) Receive(context.Context, []string, []byte) auth.Receipt {
	time.Sleep(time.Second)
	return auth.Receipt{Body: []byte("{}")}
}

// TestLongMessagesWaitForMemory: a message that is longer than most waits for the memory of the longest, for as long as
// its sender waits. Other messages do not wait.
func TestLongMessagesWaitForMemory(t *testing.T) {
	trust, cert := member(t)
	for _, limit := range []int64{LongMessages / 2, LongMessages, 2 * LongMessages} {
		for size, want := range map[int]time.Duration{maxShort - 1: 1500 * time.Millisecond, maxShort: 1500 * time.Millisecond, maxShort + 1: 2 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				h := &Handler{Engine: slow{}, Trust: trust, Body: limit, Memory: semaphore.NewWeighted(LongMessages), Log: slog.New(slog.DiscardHandler)}
				post := func(ctx context.Context, size int) int {
					r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/results", strings.NewReader(strings.Repeat(" ", size)))
					r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					return w.Code
				}
				start := time.Now()
				for range LongMessages / min(limit, LongMessages) { // takes all of the room
					go post(t.Context(), maxShort+1)
				}
				synctest.Wait()
				gone, cancel := context.WithTimeout(t.Context(), time.Second/2)
				defer cancel()
				if code := post(gone, maxShort+1); code != 400 || time.Since(start) != time.Second/2 {
					t.Errorf("limit %d: %d after %v to a sender that has gone", limit, code, time.Since(start))
				}
				if code := post(t.Context(), size); code != 200 || time.Since(start) != want {
					t.Errorf("limit %d, %d bytes: %d after %v, want 200 after %v", limit, size, code, time.Since(start), want)
				}
			})
		}
	}
}

// TestPanicIsAnswered500: a client that posts while the engine fails is asked to try again, and the text of the failure
// is not logged. A handler that aborts the connection still does so.
func TestPanicIsAnswered500(t *testing.T) {
	trust, cert := member(t)
	var log bytes.Buffer
	serve := func(says any) (code int, left any) {
		defer func() { left = recover() }()
		h := &Handler{Engine: mad{says}, Trust: trust, Log: slog.New(slog.NewTextHandler(&log, nil))}
		r := httptest.NewRequest(http.MethodPost, "/results", strings.NewReader("{}"))
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, nil
	}
	if code, left := serve("card 4000000000001000"); code != 500 || left != nil || strings.Contains(log.String(), "4000000000001000") {
		t.Errorf("%d, %v goes up; the log: %s", code, left, &log)
	}
	if _, left := serve(http.ErrAbortHandler); left != http.ErrAbortHandler {
		t.Errorf("%v goes up, want %v", left, http.ErrAbortHandler)
	}
}
