package journal

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD123RefusedRequestsAreRecordsUnderTheirRequestID: a request without an id that is known, with a good key, is
// found by the X-Request-Id of its answer, with what was refused. Without a good key nothing is kept.
func TestD123RefusedRequestsAreRecordsUnderTheirRequestID(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	revoked := s.CreateKey("Shop")
	s.RevokeKey(revoked)
	waittest.Until(t, "the key to stop", func() bool {
		res, _ := s.Call(http.MethodPost, "/preauth", revoked, rig.Object{"acctNumber": rig.EnrolledPAN})
		return res.StatusCode == http.StatusUnauthorized
	})
	good := s.Request("2.2.0")
	f1 := rig.ThreeRIRequest("2.2.0", rig.EnrolledPAN, "").With(rig.Object{"messageType": nil, "threeDSServerTransID": nil, "reference": "order-17"})
	refused := map[string]*struct {
		path, key string
		body      any
		want      journal.Record
		id        string
	}{
		"a member": {path: "/auth", body: good.With(rig.Object{"mcc": "x"}),
			want: journal.Record{API: "emv", Operation: "auth", ErrorCode: "203", Elements: []string{"mcc"}}},
		"no id": {path: "/auth", body: rig.BrowserRequest("2.2.0", rig.EnrolledPAN, "",
			"U").With(rig.Object{"mcc": nil, "threeDSServerTransID": nil}), want: journal.Record{API: "emv", Operation: "auth"}},
		"a card":  {path: "/preauth", body: rig.Object{"acctNumber": "12"}, want: journal.Record{API: "emv", Operation: "preauth"}},
		"no JSON": {path: "/auth", body: "{", want: journal.Record{API: "emv", Operation: "auth"}},
		"F1": {path: "/authentications", body: f1.With(rig.Object{"mcc": "x"}),
			want: journal.Record{API: "authentications", Operation: "authentications", Reference: "order-17"}},
		"a wrong key":     {path: "/auth", key: canaryWrong, body: good},
		"no key":          {path: "/authentications", key: "-", body: f1},
		"a revoked key":   {path: "/preauth", key: revoked, body: rig.Object{"acctNumber": "12"}},
		"a good request":  {path: "/auth", body: good},
		"another request": {path: "/lookup", body: rig.Object{"acctNumber": "12"}},
	}
	for _, r := range refused {
		key := s.APIKey
		if r.key != "" {
			key = r.key
		}
		if key == "-" {
			key = ""
		}
		res, _ := s.Call(http.MethodPost, r.path, key, r.body)
		r.id = res.Header.Get("X-Request-Id")
	}
	rig.Must(t, rig.WithJournal(t.Context(), s.ConfigFile, func(st journal.Store, _ *journal.Keys) error {
		var page journal.Page
		waittest.Until(t, "the journal", func() bool {
			var err error
			page, err = st.Search(t.Context(), journal.Query{})
			rig.Must(t, err)
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
			if name == "a member" { // its id is that of a good request, too
				id := good.Text("threeDSServerTransID")
				found, err := st.Search(t.Context(), journal.Query{ID: id})
				if err != nil || len(found.Records) != 2 || d.NamedID != id {
					t.Errorf("a search for %s finds %+v, %v; want both requests", id, found.Records, err)
				}
				if out := command(s, "", "journal", "show", r.id); !strings.Contains(out, "named "+id) || !strings.Contains(out, "error 203 mcc") {
					t.Errorf("journal show prints %s", out)
				}
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
