package playground

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestD123RefusedRequestIsARecordUnderItsRequestID: each refused request with a good key is found by the X-Request-Id
// of its answer, whatever is wrong with it, in each API. Without a good key, and where an id is known, there is none.
func TestD123RefusedRequestIsARecordUnderItsRequestID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	api, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	p, err := Start(t.Context(), Options{Dir: dir, API: api, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	transport := &http.Transport{DisableKeepAlives: true}
	post := func(path, key, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+api.Addr().String()+path, bytes.NewReader([]byte(body)))
		must(t, err)
		r.Header.Set("APIKey", key)
		r.Header.Set("Content-Type", "application/json")
		answer, err := transport.RoundTrip(r)
		must(t, err)
		must(t, answer.Body.Close())
		if answer.StatusCode < 400 || answer.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s with %q: %d, want a refusal with an X-Request-Id", path, body, answer.StatusCode)
		}
		return answer.Header.Get("X-Request-Id")
	}
	bad := payment("")
	delete(bad, "mcc")
	text, err := json.Marshal(bad)
	must(t, err)
	want := map[string]string{
		post("/preauth", Key, `{"acctNumber": "12"}`):         "preauth",
		post("/preauth", Key, "{"):                            "preauth",
		post("/auth", Key, string(text)):                      "auth",
		post("/authentications", Key, `{"acctNumber": "12"}`): "authentications",
	}
	stranger := post("/auth", "nobody", string(text))
	stop()
	must(t, <-ended)

	keys, err := journal.LoadKeys(filepath.Join(dir, "journal-keys.json"))
	must(t, err)
	st, err := journal.OpenFiles(dir, keys)
	must(t, err)
	defer st.Close()
	for id, operation := range want {
		page, err := st.Search(t.Context(), journal.Query{ID: id})
		if err != nil || len(page.Records) != 1 || page.Records[0].ID != id || page.Records[0].Operation != operation ||
			page.Records[0].Status != "refused" || page.Records[0].Merchant != shopMerchant {
			t.Errorf("%s %s: %+v, %v", operation, id, page.Records, err)
		}
	}
	if page, err := st.Search(t.Context(), journal.Query{}); err != nil || len(page.Records) != len(want) {
		t.Errorf("%d records, %v, want %d", len(page.Records), err, len(want))
	}
	if page, err := st.Search(t.Context(), journal.Query{ID: stranger}); err != nil || len(page.Records) != 0 {
		t.Errorf("of a stranger: %+v, %v", page.Records, err)
	}
}
