package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/openthreeds/threeds/internal/journal"
)

// TestD123RefusedRequestsAreRecordsUnderTheirRequestID: a request without an id that is known, with a good key, is found by
// the X-Request-Id of its answer, with what was refused. Without a good key nothing is kept.
func TestD123RefusedRequestsAreRecordsUnderTheirRequestID(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	revoked := s.key("Shop")
	s.revoke(revoked)
	waitFor(t, "the key to stop", func() bool {
		res, _ := s.call(http.MethodPost, "/preauth", revoked, object{"acctNumber": testPAN})
		return res.StatusCode == http.StatusUnauthorized
	})
	good := s.request("2.2.0")
	f1 := threeRI("2.2.0", testPAN, "").with(object{"messageType": nil, "threeDSServerTransID": nil, "reference": "order-17"})
	refused := map[string]*struct {
		path, key string
		body      any
		want      journal.Record
		id        string
	}{
		"a member":        {path: "/auth", body: good.with(object{"mcc": "x"}), want: journal.Record{API: "emv", Operation: "auth", ErrorCode: "203", Elements: []string{"mcc"}}},
		"no id":           {path: "/auth", body: browser("2.2.0", testPAN, "", "U").with(object{"mcc": nil, "threeDSServerTransID": nil}), want: journal.Record{API: "emv", Operation: "auth"}},
		"a card":          {path: "/preauth", body: object{"acctNumber": "12"}, want: journal.Record{API: "emv", Operation: "preauth"}},
		"no JSON":         {path: "/auth", body: "{", want: journal.Record{API: "emv", Operation: "auth"}},
		"F1":              {path: "/authentications", body: f1.with(object{"mcc": "x"}), want: journal.Record{API: "authentications", Operation: "authentications", Reference: "order-17"}},
		"a wrong key":     {path: "/auth", key: canaryWrong, body: good},
		"no key":          {path: "/authentications", key: "-", body: f1},
		"a revoked key":   {path: "/preauth", key: revoked, body: object{"acctNumber": "12"}},
		"a good request":  {path: "/auth", body: good},
		"another request": {path: "/lookup", body: object{"acctNumber": "12"}},
	}
	for _, r := range refused {
		key := s.APIKey
		if r.key != "" {
			key = r.key
		}
		if key == "-" {
			key = ""
		}
		res, _ := s.call(http.MethodPost, r.path, key, r.body)
		r.id = res.Header.Get("X-Request-Id")
	}
	must(t, withJournal(t.Context(), s.config, func(st journal.Store, _ *journal.Keys) error {
		var page journal.Page
		waitFor(t, "the journal", func() bool {
			var err error
			page, err = st.Search(t.Context(), journal.Query{})
			must(t, err)
			return len(page.Records) >= 6
		})
		if len(page.Records) != 6 { // five that were refused, and the good one
			t.Errorf("%d records: %+v", len(page.Records), page.Records)
		}
		for name, r := range refused {
			d, err := st.Show(t.Context(), r.id)
			if r.want.API == "" {
				if err == nil {
					t.Errorf("%s is a record: %+v", name, d)
				}
				continue
			}
			if err != nil || d.ID != r.id || d.Status != "refused" || d.Merchant != "Shop" || d.API != r.want.API || d.Operation != r.want.Operation ||
				d.Reference != r.want.Reference || d.ErrorCode == "" || len(d.Steps) != 2 {
				t.Errorf("%s: %+v, %v", name, d, err)
			}
			if r.want.ErrorCode != "" && fmt.Sprint(d.ErrorCode, d.Elements) != fmt.Sprint(r.want.ErrorCode, r.want.Elements) {
				t.Errorf("%s: refused as %s %v", name, d.ErrorCode, d.Elements)
			}
			if slices.ContainsFunc(d.Steps, func(step journal.Step) bool { return step.Step == "areq" }) {
				t.Errorf("%s: an AReq left", name)
			}
		}
		return nil
	}))
}
