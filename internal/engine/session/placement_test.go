package session_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/session"
)

// A halfAway is a store on two servers, one of which is away: the one with the ids that end in 8 to f.
type halfAway struct{ refused atomic.Int32 }

func (h *halfAway) CanWrite(id string) bool {
	if strings.Contains("89abcdef", id[len(id)-1:]) {
		h.refused.Add(1)
		return false
	}
	return true
}

// An allAway is a store none of whose servers answers.
type allAway struct{ asked atomic.Int32 }

func (a *allAway) CanWrite(string) bool {
	a.asked.Add(1)
	return false
}

// TestIDsAreDrawnUntilTheyCanBeStored: while a server of the store is away, each new id is one whose row another server
// takes: of /preauth, of an authentication for a browser, and of a second AReq.
func TestIDsAreDrawnUntilTheyCanBeStored(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(t *testing.T, w *authtest.World) string{
		"preauth": func(t *testing.T, w *authtest.World) string {
			return authtest.Preauth(t, w.NewEngine(0), authtest.Shop)
		},
		"browser": func(t *testing.T, w *authtest.World) string {
			a, _, err := w.NewBrowserEngine().Create(t.Context(), authtest.Profiled, authtest.Four().JSON())
			if err != nil {
				t.Fatal(authtest.Told(err))
			}
			return a.ID
		},
		"second AReq": func(t *testing.T, w *authtest.World) string {
			spc := authtest.SPCWorld()
			w.Hits, w.Reply = spc.Hits, spc.Reply
			p, sent := authtest.NewSPCPage(t, w, "Y")
			p.Await(session.StepSPC)
			if _, err := p.Answer(p.Engine, confirmed); err != nil {
				t.Fatal(err)
			}
			p.Await(session.StepEnd)
			all := sent.List()
			return all[len(all)-1].Text("threeDSServerTransID")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, half := authtest.NewWorld(), new(halfAway)
			w.Placement = half
			const enough = 20
			for range enough {
				if id := draw(t, w); !half.CanWrite(id) {
					t.Errorf("the id %s is of the server that is away", id)
				}
			}
			if half.refused.Load() < enough/4 {
				t.Errorf("only %d ids of the other server were drawn", half.refused.Load())
			}
		})
	}
}

// TestDrawingOfIDsEnds: if no server of the store answers, an id is drawn all the same, after so
// many that nobody waits.
func TestDrawingOfIDsEnds(t *testing.T) {
	t.Parallel()
	w, all := authtest.NewWorld(), new(allAway)
	w.Placement = all
	if id := authtest.Preauth(t, w.NewEngine(0), authtest.Shop); len(id) != 36 || all.asked.Load() != 64 {
		t.Errorf("id %q after %d draws, want 64", id, all.asked.Load())
	}
}
