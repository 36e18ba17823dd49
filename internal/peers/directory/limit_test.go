package directory

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

// TestLimitsHoldTheTables: no answer that the tables allow is too long, with a quarter
// of its length to spare.
func TestLimitsHoldTheTables(t *testing.T) {
	const open = 16000 // what the one signature has at most that earlier versions leave open
	for _, v := range message.Versions() {
		for _, typ := range []message.Type{message.ARes, message.Erro} {
			longest, members := messagetest.Longest(typ, v, 1, open)
			wide, _ := messagetest.Longest(typ, v, 4, open)
			t.Logf("%s %s: %d bytes, %d if every character takes four, %d members", v, typ, longest, wide, members)
			if longest*5/4 > maxARes {
				t.Errorf("%s %s: may have %d bytes, and %d are taken", v, typ, longest, maxARes)
			}
			if members > 1000 {
				t.Errorf("%s %s: may have %d members, and 1000 are taken", v, typ, members)
			}
		}
	}
}

// TestAResAtTheLimit: an answer of the longest length is taken whole, whether it says
// how long it is or not, and one of a byte more is not.
func TestAResAtTheLimit(t *testing.T) {
	ca := newAuthority(t)
	var length int
	var chunked bool
	body := func() string { return `{"messageType":"ARes","x":"` + strings.Repeat("x", length-29) + `"}` }
	address := serve(t, ca.server(), func(w http.ResponseWriter, _ *http.Request) {
		if !chunked {
			w.Header().Set("Content-Length", strconv.Itoa(length))
		}
		io.WriteString(w, body())
	})
	c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
	for _, length = range []int{maxPreallocated - 1, maxPreallocated, maxPreallocated + 1, maxARes - 1, maxARes, maxARes + 1} {
		for _, chunked = range []bool{false, true} {
			got, err := send(t, c, "visa")
			switch {
			case length > maxARes && (err == nil || err.Kind != TooLarge):
				t.Errorf("%d bytes, chunked %t: %v, want an error", length, chunked, err)
			case length <= maxARes && (err != nil || got != body()):
				t.Errorf("%d bytes, chunked %t: %d came, %v", length, chunked, len(got), err)
			}
		}
	}
}

// TestAnnouncedOnly: an answer that is announced and does not come has no memory kept
// for it.
func TestAnnouncedOnly(t *testing.T) {
	p := &peer{Peer: Peer{Scheme: "visa"}}
	got, err := p.readLimited(t.Context(), bytes.NewReader([]byte("{")), maxARes, maxARes)
	if err != nil || string(got) != "{" || cap(got) > 2*maxPreallocated {
		t.Errorf("%q, %v, in %d bytes", got, err, cap(got))
	}
}
