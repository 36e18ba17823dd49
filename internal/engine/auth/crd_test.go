package auth_test

import (
	"testing"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/message"
)

// TestCRDBytes compares a CRD byte for byte: clients may depend on the order of the members, and members without a
// value are left out.
func TestCRDBytes(t *testing.T) {
	const (
		full = `"acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0",` +
			`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.3.1","dsProtocolVersions":["2.1.0","2.2.0","2.3.1"],` +
			`"acsProtocolVersions":[{"version":"2.1.0"},{"version":"2.2.0","threeDSMethodURL":"https://acs.example/m?a=1&b=c","acsInfoInd":["01","02"]}],`
		versions = `"threeDSServerProtocolVersions":["2.1.0","2.2.0","2.3.1"]`
	)
	info := &ranges.Info{
		ACSStart: "2.1.0", ACSEnd: "2.2.0", DSStart: "2.1.0", DSEnd: "2.3.1", DSVersions: []string{"2.1.0", "2.2.0", "2.3.1"},
		ACS: []ranges.ACSVersion{
			{Version: "2.1.0"},
			{Version: "2.2.0", MethodURL: "https://acs.example/m?a=1&b=c", InfoInd: []string{"01", "02"}},
		},
	}
	for name, tt := range map[string]struct {
		info     *ranges.Info
		versions []message.Version // of the 3DS Server
		want     string            // what follows the scheme
	}{
		"all members": {
			info, message.Versions(),
			full + versions + `,"threeDSMethodURL":"https://acs.example/m?a=1&b=c","acsInfoInd":["01","02"]}`,
		},
		"other versions of the 3DS Server": {
			info, []message.Version{message.V210},
			full + `"threeDSServerProtocolVersions":["2.1.0"]}`,
		},
		"no members": {&ranges.Info{}, nil, `"acsProtocolVersions":[]}`},
		"characters that JSON escapes": {
			&ranges.Info{ACSEnd: "a\"b\\c<&>ä"}, nil,
			`"acsEndProtocolVersion":"a\"b\\c<&>ä","acsProtocolVersions":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := authtest.NewWorld()
			w.Hits = []ranges.Hit{{Scheme: "visa", Info: tt.info}}
			e := w.NewEngine(0)
			e.Peers = []check.Directory{{Scheme: "visa", Versions: tt.versions}}
			got, _, err := e.Preauth(t.Context(), authtest.Shop, authtest.Object{"acctNumber": authtest.PAN}.JSON())
			if err != nil {
				t.Fatal(err)
			}
			id := authtest.Parse(t, got).Text("threeDSServerTransID")
			want := `{"messageType":"CRD","threeDSServerTransID":"` + id + `","scheme":"visa",` + tt.want
			if string(got) != want || !message.IsUUID(id) {
				t.Errorf("CRD is\n%s, want\n%s", got, want)
			}
		})
	}
}
