package api_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/api"
)

// says answers every operation with so many bytes.
type says int

func (n says) Preauth(_ *account.Account, _, dst []byte) ([]byte, error) {
	return append(dst, bytes.Repeat([]byte("x"), int(n))...), nil
}

func (n says) Authenticate(context.Context, *account.Account, []byte) ([]byte, error) {
	return n.Preauth(nil, nil, nil)
}

func (n says) Result(context.Context, *account.Account, []byte) ([]byte, error) {
	return n.Preauth(nil, nil, nil)
}

// TestContentLength: an answer of any length says how long it is (I6), those
// around the buffer of net/http too, which counts only what fits into it.
func TestContentLength(t *testing.T) {
	for _, n := range []int{1, 2047, 2048, 2049, 4096, 100_000} {
		server := httptest.NewServer(&api.Handler{Engine: says(n), Keys: anyone{}, Log: slog.New(slog.DiscardHandler)})
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
