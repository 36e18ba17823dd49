package client_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/threedstest"
)

// searchUntil asks until a search finds so many authentications: the journal is written within a second.
func searchUntil(t *testing.T, c *client.Client, s api.AuthenticationSearch, want int) (p *client.Page) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("%d authentications that %+v finds", want, s), func() bool {
		var err error
		if p, err = c.Search(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		return len(p.Data) == want
	})
	return p
}

// TestF7ListAndSearch: a merchant finds its own authentications by each name, newest first, page by page.
func TestF7ListAndSearch(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	c, ctx := server.Client(), t.Context()
	var ids []string
	for _, r := range []struct{ card, reference string }{
		{"4000000000000103", "order-1"}, {"4000000000000113", "order-2"}, {"5100000000000107", "order-3"},
	} {
		request := appRequest(r.card)
		request["reference"] = r.reference
		a, err := c.Authenticate(ctx, request, "")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, a.ID)
	}
	waiting := authenticate(t, c, "4000000000000170").ThreeDSServerTransID
	_, err := c.Authenticate(ctx, map[string]any{"acctNumber": "4000000000000103", "purchaseAmount": "?"}, "") // refused: a record of its own
	wantProblem(t, err, http.StatusBadRequest, "invalid")
	foreign, err := client.New(server.URL, server.OtherKey).Authenticate(ctx, appRequest("4000000000000103"), "")
	if err != nil {
		t.Fatal(err)
	}

	all := searchUntil(t, c, api.AuthenticationSearch{}, 4)
	for i, id := range []string{waiting, ids[2], ids[1], ids[0]} {
		if all.Data[i].ID != id {
			t.Errorf("number %d is %s, want %s: newest first", i, all.Data[i].ID, id)
		}
	}
	if strings.Contains(string(all.Answer.Raw), foreign.ID) {
		t.Errorf("another merchant's is in the list: %s", all.Answer.Raw)
	}
	one := all.Data[3]
	if one.Status != "completed" || one.Outcome.Result != "authenticated" || one.Outcome.Authorisation.AuthenticationValue != "" ||
		!one.Outcome.Authorisation.Expired || one.Outcome.Authorisation.ECI != "05" || one.Reference != "order-1" || one.Card.Last4 != "0103" ||
		one.Outcome.Liability.Shifts == "" || one.Outcome.Next.Action != "authorise" {
		t.Errorf("%+v %+v", one, one.Outcome)
	}
	now, err := c.Authentication(ctx, ids[0], 0)
	if err != nil || now.Outcome.Liability != one.Outcome.Liability || now.Outcome.Next != one.Outcome.Next {
		t.Errorf("the journal says %+v, the row %+v", one.Outcome, now.Outcome)
	}
	for _, word := range []string{`"ares"`, `"rreq"`, `"browser"`, string(now.Outcome.Authorisation.AuthenticationValue), "4000000000000103"} {
		if strings.Contains(string(all.Answer.Raw), word) {
			t.Errorf("%q is in the list", word)
		}
	}

	hour := time.Hour
	for name, tt := range map[string]struct {
		search api.AuthenticationSearch
		want   []string
	}{
		"card":      {api.AuthenticationSearch{AcctNumber: "4000000000000103"}, []string{ids[0]}},
		"reference": {api.AuthenticationSearch{Reference: "order-2"}, []string{ids[1]}},
		"last4":     {api.AuthenticationSearch{Last4: "0113"}, []string{ids[1]}},
		"scheme":    {api.AuthenticationSearch{Scheme: "mastercard"}, []string{ids[2]}},
		"status":    {api.AuthenticationSearch{Status: "challenge"}, []string{waiting}},
		"result":    {api.AuthenticationSearch{Result: "not_authenticated"}, []string{ids[1]}},
		"since":     {api.AuthenticationSearch{From: time.Now().Add(-hour), Scheme: "mastercard"}, []string{ids[2]}},
		"before":    {api.AuthenticationSearch{To: time.Now().Add(-hour)}, nil},
		"two":       {api.AuthenticationSearch{Scheme: "visa", Reference: "order-3"}, nil},
	} {
		page := searchUntil(t, c, tt.search, len(tt.want))
		for i := range tt.want {
			if page.Data[i].ID != tt.want[i] {
				t.Errorf("%s: %s, want %s", name, page.Answer.Raw, tt.want[i])
			}
		}
	}
	page := searchUntil(t, c, api.AuthenticationSearch{Limit: 3}, 3)
	if rest := searchUntil(t, c, api.AuthenticationSearch{Limit: 3, Cursor: string(page.Next)}, 1); rest.Data[0].ID != ids[0] || rest.Next != "" {
		t.Errorf("the second page: %s", rest.Answer.Raw)
	}
	testCursor(t, server, string(page.Next), ids)
	list := exchange(t, server, server.Key, "GET", "/authentications?last4=0113&limit=100", "")
	if !strings.Contains(list, ids[1]) || strings.Contains(list, ids[0]) {
		t.Errorf("GET: %s", list)
	}
}

// testCursor holds that the cursor of a search without filters says nothing, and continues no other search.
func testCursor(t *testing.T, server *threedstest.Server, cursor string, ids []string) {
	t.Helper()
	sealed, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		t.Errorf("the cursor: %v", err)
	}
	for _, id := range ids {
		if strings.Contains(cursor, id) || strings.Contains(string(sealed), id) {
			t.Errorf("the cursor %s shows the id %s", cursor, id)
		}
	}
	if got := exchange(t, server, server.Key, "GET", "/authentications?limit=100&cursor="+cursor,
		""); !strings.Contains(got, "200") || !strings.Contains(got, ids[0]) {
		t.Errorf("with another limit: %s", got)
	}
	changed := []byte(sealed)
	changed[len(changed)-1] ^= 1
	for name, tt := range map[string]struct{ key, query string }{
		"another merchant": {server.OtherKey, "cursor=" + cursor},
		"another filter":   {server.Key, "scheme=visa&cursor=" + cursor},
		"another time":     {server.Key, "from=2020-01-01T00:00:00Z&cursor=" + cursor},
		"changed":          {server.Key, "cursor=" + base64.RawURLEncoding.EncodeToString(changed)},
		"of the journal":   {server.Key, "cursor=1"},
	} {
		got := exchange(t, server, tt.key, "GET", "/authentications?"+tt.query, "")
		if !strings.Contains(got, "400") || !strings.Contains(got, `"parameter":"cursor"`) || strings.Contains(got, cursor) {
			t.Errorf("%s: %s, want 400 that names cursor", name, got)
		}
	}
	for _, body := range []string{`{"acctNumber":"4000000000000103","cursor":"` + cursor + `"}`, `{"last4":"0103","cursor":"` + cursor + `"}`} {
		if got := exchange(t, server, server.Key, "POST", "/authentications/search", body); !strings.Contains(got, "400") ||
			!strings.Contains(got, `"pointer":"/cursor"`) {
			t.Errorf("%s: %s, want 400 that names cursor", body, got)
		}
	}
}

// TestF7WrongSearches: each wrong member is named, with what would be right, and no value is repeated.
func TestF7WrongSearches(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	for query, want := range map[string]string{
		"limit=101": `"parameter":"limit"`, "limit=0": `"rule":"range"`, "limit=x": `"rule":"range"`, "last4=12": `"pattern":"^[0-9]{4}$"`,
		"acctNumber=4000000000000103": "POST /authentications/search", "status=done": `"requires_browser"`, "result=yes": `"data_only"`,
		"from=yesterday": `"parameter":"from"`, "cursor=%20": `"parameter":"cursor"`,
		"colour=crimson": `"parameter":"colour","code":"203","rule":"unknown-member"`, "scheme=nobody": `"unknown-code"`,
		"reference=": `"parameter":"reference"`, "reference=%00": `"parameter":"reference"`, "reference=%ff": `"parameter":"reference"`,
		"cursor=1.%00": `"parameter":"cursor"`, "last4=1234&last4=4321": `"rule":"duplicate-member"`, "reference=" + strings.Repeat("x", 65): `"max":64`,
		"from=2026-02-02T00:00:00Z&to=2026-02-01T00:00:00Z": `"parameter":"to","code":"203","rule":"condition"`,
		"a=%zz": "urn:threeds:problem:malformed",
	} {
		got := exchange(t, server, server.Key, "GET", "/authentications?"+query, "")
		if !strings.Contains(got, "400") || !strings.Contains(got, want) || strings.Contains(got, "4000000000000103") || strings.Contains(got, "crimson") {
			t.Errorf("%s: %s, want 400 with %s", query, got, want)
		}
	}
	for body, want := range map[string]string{
		`{"acctNumber":"4000-0000"}`: `"pointer":"/acctNumber"`, `{"limit":"5"}`: `"rule":"type"`, `{"limit":1.5}`: `"pointer":"/limit"`,
		`{"last4":1234}`: `"pointer":"/last4"`, `[]`: "malformed", `{"last4":"1234","last4":"1234"}`: "malformed", `{"a/b":"x"}`: `"pointer":""`,
		`{"colour":1}`: `"pointer":"/colour","code":"203","rule":"unknown-member"`, `{"scheme":1}`: `"found":{"type":"number"}`,
		`{"from":"2026-02-02T00:00:00Z","to":"2026-02-01T00:00:00Z"}`: `"pointer":"/to"`,
	} {
		if got := exchange(t, server, server.Key, "POST", "/authentications/search", body); !strings.Contains(got, "400") || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want 400 with %s", body, got, want)
		}
	}
	if got := exchange(t, server, server.Key, "POST", "/authentications/search", `{"reference":null,"limit":null}`); !strings.Contains(got, "200") {
		t.Errorf("null means that a member is absent, and the answer is %s", got)
	}
	for _, method := range []string{"PUT", "DELETE"} {
		if got := exchange(t, server, server.Key, method, "/authentications", ""); !strings.Contains(got, "405") {
			t.Errorf("%s: %s, want 405", method, got)
		}
	}
}
