package client_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/threedstest"
)

// An idempotentAnswer is what a request with an Idempotency-Key was answered with.
type idempotentAnswer struct {
	status   int
	body     string
	header   http.Header
	replayed bool
}

// postOnce makes a POST with Idempotency-Keys.
func postOnce(t *testing.T, server *threedstest.Server, apiKey, path, body string, keys ...string) idempotentAnswer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("APIKey", apiKey)
	req.Header["Idempotency-Key"] = keys
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	header := res.Header.Clone()
	replayed := header.Get("Idempotency-Replayed") == "true"
	for _, name := range []string{"Date", "Idempotency-Replayed", "X-Request-Id"} {
		header.Del(name)
	}
	return idempotentAnswer{res.StatusCode, string(raw), header, replayed}
}

// TestF5SameKeySameAnswer: every POST of the API with the same key has the same answer, byte for byte, and causes
// nothing again; with another body it is 422.
func TestF5SameKeySameAnswer(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	r := newReceiver(t)
	endpoint := r.register(t, server)
	for _, tt := range []struct {
		path, body string
		want       int
	}{
		{"/webhook-endpoints", `{"url":"` + r.URL + `/once"}`, 201},
		{"/webhook-endpoints", `{"url":"ftp://nowhere.example"}`, 400},
		{"/webhook-endpoints/" + endpoint + "/test", "", 200},
		{"/webhook-endpoints/none/test", "", 404},
		{"/webhook-endpoints/" + endpoint + "/rotate", "", 200},
		{"/events/none/resend", "", 404},
		{"/lookup", `{"acctNumber":"4000000000000103"}`, 200},
		{"/explain", `{"messageType":"AReq"}`, 200},
		{"/outcome", `{}`, 400},
	} {
		key := "once " + tt.path + tt.body
		first := postOnce(t, server, server.Key, tt.path, tt.body, key)
		again := postOnce(t, server, server.Key, tt.path, tt.body, key)
		if first.status != tt.want || first.replayed {
			t.Errorf("%s: %d, replayed %t, %s, want %d", tt.path, first.status, first.replayed, first.body, tt.want)
		}
		if again.status != first.status || again.body != first.body || !again.replayed || !maps.EqualFunc(again.header, first.header, slices.Equal) {
			t.Errorf("%s: the second answer is %d %.200s, the first %d %.200s", tt.path, again.status, again.body, first.status, first.body)
		}
		if other := postOnce(t, server, server.Key, tt.path, tt.body+" ", key); other.status != 422 || other.replayed {
			t.Errorf("%s with another body: %d %s", tt.path, other.status, other.body)
		}
	}
	tested := 0
	for len(r.got) > 0 {
		if got := <-r.got; got.body["type"] == "webhook.test" {
			tested++
		}
	}
	list := ask(t, server, server.Key, "GET", "/webhook-endpoints", "", 200)
	if all, _ := list["data"].([]any); len(all) != 2 || tested != 1 {
		t.Errorf("%d endpoints and %d test events, want 2 and 1", len(all), tested)
	}
}

// TestF5SameKeySameAuthentication: an authentication is created once, and refused once. A cancellation is made once.
func TestF5SameKeySameAuthentication(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	for _, tt := range []struct {
		path, body string
		want       int
	}{
		{"/authentications", `{"acctNumber":"4000000000000103","cardExpiryDate":"3012","deviceChannel":"03","threeRIInd":"04","messageCategory":"02"}`, 201},
		{"/authentications", `{"acctNumber":"x"}`, 400},
		{"/authentications/00000000-0000-4000-8000-000000000000/cancel", "", 404},
	} {
		key := "once " + tt.path + tt.body
		first := postOnce(t, server, server.Key, tt.path, tt.body, key)
		again := postOnce(t, server, server.Key, tt.path, tt.body, key)
		if first.status != tt.want || first.replayed || !again.replayed || again.body != first.body || !maps.EqualFunc(again.header, first.header, slices.Equal) {
			t.Errorf("%s: %d %.300s, then %d %.300s, want %d", tt.path, first.status, first.body, again.status, again.body, tt.want)
		}
	}
}

// TestD17IdempotencyProblems: a header that is no key, and a key that was used, are problems of the request. The
// compatible operations ignore the header.
func TestD17IdempotencyProblems(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	for _, keys := range [][]string{{""}, {"a", "b"}, {"\u00e4"}, {strings.Repeat("x", 256)}} {
		got := postOnce(t, server, server.Key, "/lookup", "{}", keys...)
		var p struct {
			Type   string
			Errors []struct{ Header, Rule string }
		}
		if err := json.Unmarshal([]byte(got.body), &p); err != nil || got.status != 400 || p.Type != "urn:threeds:problem:invalid" ||
			len(p.Errors) != 1 || p.Errors[0].Header != "Idempotency-Key" {
			t.Errorf("%.20q: %d %s", keys, got.status, got.body)
		}
	}
	const card = `{"acctNumber":"4000000000000103"}`
	first := postOnce(t, server, server.Key, "/lookup", card, strings.Repeat("x", 255))
	mismatch := postOnce(t, server, server.Key, "/explain", card, strings.Repeat("x", 255))
	if first.status != 200 || mismatch.status != 422 || !strings.Contains(mismatch.body, `"urn:threeds:problem:idempotency-mismatch"`) ||
		mismatch.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d, then %d %s", first.status, mismatch.status, mismatch.body)
	}
	// Another merchant's key is another one.
	if got := postOnce(t, server, server.OtherKey, "/explain", card, strings.Repeat("x", 255)); got.status != 200 || got.replayed {
		t.Errorf("another merchant: %d %s", got.status, got.body)
	}
	one, two := postOnce(t, server, server.Key, "/preauth", card, "same"), postOnce(t, server, server.Key, "/preauth", card, "same")
	if one.status != 200 || two.status != 200 || one.body == two.body || two.replayed {
		t.Errorf("/preauth: %d and %d, replayed %t", one.status, two.status, two.replayed)
	}
}
