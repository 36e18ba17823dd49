package server

import (
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/message"
)

// TestOwnRulesReachTheEngine: the engine uses a directory's file of rules together with the public rules.
func TestOwnRulesReachTheEngine(t *testing.T) {
	t.Parallel()
	own, err := scheme.ReadOwn("visa", "scheme visa Ours\nrequire billAddrCity ; vendor-doc sure\n")
	if err != nil {
		t.Fatal(err)
	}
	areq, err := message.Parse([]byte(`{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"02","messageCategory":"01"}`), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		rules *scheme.Profile
		want  scheme.Kind // the strictest of what is said of billAddrCity
	}{{nil, scheme.Advise}, {own, scheme.Require}} {
		cfg := &Config{CAs: make(map[string]DirectoryCAs), Colours: make(map[string]string)}
		cfg.addDirectory(config.Directory{Scheme: "visa", Rules: config.RulesFile{Rules: tt.rules}}, new(config.Config))
		got := map[scheme.Kind]bool{}
		for _, f := range cfg.Directories[0].Rules.Check(areq, time.Now()) {
			if f.Element == "billAddrCity" {
				got[f.Rule] = true
			}
		}
		if !got[tt.want] || got[scheme.Require] != (tt.rules != nil) {
			t.Errorf("billAddrCity: %v, want %s", got, tt.want)
		}
	}
}
