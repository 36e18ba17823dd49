package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/threedstest"
)

// exchange makes a request and returns all of the answer but what differs between any two.
func exchange(t *testing.T, server *threedstest.Server, apiKey, method, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("APIKey", apiKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	res.Header.Del("Date")
	res.Header.Del("X-Request-Id")
	var all strings.Builder
	all.WriteString(res.Status + "\n")
	if err := res.Header.Write(&all); err != nil { // sorted
		t.Fatal(err)
	}
	if _, err := io.Copy(&all, res.Body); err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestF4NoRouteTellsOfAnotherMerchant: whatever a merchant asks about data of another merchant, the answer is that for
// an unknown id, byte for byte. Afterwards nothing has changed.
func TestF4NoRouteTellsOfAnotherMerchant(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	lists := []string{"/webhook-endpoints", "/events", "/authentications"}
	empty := map[string]string{}
	for _, path := range lists {
		empty[path] = exchange(t, server, server.OtherKey, "GET", path, "")
	}

	r := newReceiver(t)
	endpoint := r.register(t, server)
	authentication := authenticate(t, server.Client(), "4000000000000170").ThreeDSServerTransID // waits for its challenge
	final := authenticate(t, server.Client(), "4000000000000103").ThreeDSServerTransID
	event := r.next(t).id
	const unknownID, unknownName = "00000000-0000-4000-8000-000000000000", "none"
	state := func() string {
		return exchange(t, server, server.Key, "GET", "/authentications/"+authentication, "") +
			exchange(t, server, server.Key, "GET", "/authentications/"+final, "") +
			exchange(t, server, server.Key, "GET", "/webhook-endpoints", "")
	}
	before := state()
	for _, tt := range []struct {
		method, path, body string // The word ID stands for the id of the thing that belongs to the merchant.
		ids                []string
		nobodys            string
	}{
		{"GET", "/authentications/ID", "", []string{authentication, final, strings.ToUpper(final)}, unknownID},
		{"GET", "/authentications/ID?wait=0", "", []string{authentication, final, "x"}, unknownID},
		{"POST", "/authentications/ID/cancel", "{}", []string{authentication, final, "x"}, unknownID},
		{"POST", "/outcome", `{"threeDSServerTransID":"ID"}`, []string{authentication, final, "x"}, unknownID},
		{"GET", "/authentications?reference=ID", "", []string{"order-17"}, unknownID},
		{"POST", "/authentications/search", `{"acctNumber":"ID"}`, []string{"4000000000000170", "4000000000000103"}, "4000000000000202"},
		{"GET", "/webhook-endpoints/ID", "", []string{endpoint}, unknownName},
		{"PATCH", "/webhook-endpoints/ID", `{"disabled":true}`, []string{endpoint}, unknownName},
		{"DELETE", "/webhook-endpoints/ID", "", []string{endpoint}, unknownName},
		{"POST", "/webhook-endpoints/ID/test", "", []string{endpoint}, unknownName},
		{"POST", "/webhook-endpoints/ID/rotate", "", []string{endpoint}, unknownName},
		{"GET", "/events?authentication=ID", "", []string{authentication, final}, unknownID},
		{"GET", "/events/ID", "", []string{event}, unknownName},
		{"POST", "/events/ID/resend", "", []string{event}, unknownName},
	} {
		ask := func(id string) string {
			path, body := strings.ReplaceAll(tt.path, "ID", id), strings.ReplaceAll(tt.body, `"ID"`, `"`+id+`"`)
			return exchange(t, server, server.OtherKey, tt.method, path, body)
		}
		want := ask(tt.nobodys)
		for _, id := range tt.ids {
			if got := ask(id); got != want {
				t.Errorf("%s %s: of another merchant's\n%s\nof nobody's\n%s", tt.method, tt.path, got, want)
			}
		}
	}
	for _, path := range lists {
		if got := exchange(t, server, server.OtherKey, "GET", path, ""); got != empty[path] {
			t.Errorf("GET %s: %s, want %s", path, got, empty[path])
		}
	}
	if len(r.got) > 0 {
		t.Errorf("the owner was told %s", (<-r.got).raw)
	}
	if after := state(); after != before {
		t.Errorf("what the owner sees was\n%s\nand is\n%s", before, after)
	}
}
