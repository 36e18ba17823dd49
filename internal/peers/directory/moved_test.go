package directory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
	"github.com/openthreeds/threeds/message"
)

// TestPR06VP17Serial: the next PReq asks for changes since the serial number in use,
// until the directory server does not know it any more (MX-02, PR-06).
func TestPR06VP17Serial(t *testing.T) {
	s := newShared(t, nil)
	a := s.start()
	next := func(says func(http.ResponseWriter, *message.Message)) *message.Message {
		t.Helper()
		s.says = says
		s.due()
		a.pollStore(t.Context())
		a.refresh(t.Context())
		return s.ds.preqs[len(s.ds.preqs)-1]
	}
	with := func(serial, entries string) func(http.ResponseWriter, *message.Message) {
		return func(w http.ResponseWriter, preq *message.Message) {
			text := pres(preq, entries)
			io.WriteString(w, text[:len(text)-1]+`,"serialNum":"`+serial+`"}`)
		}
	}
	if preq := next(with("10", entry)); preq.Has("serialNum") {
		t.Error("a serial number in the first PReq")
	}
	other := `{"startRange":"4100000000000000","endRange":"4100000999999999","actionInd":"A","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0"}`
	if preq := next(with("11", other)); preq.Text("serialNum") != "10" {
		t.Errorf("serialNum %q, want 10", preq.Text("serialNum"))
	}
	if a.cards.Lookup(card) == nil || a.cards.Lookup(otherCard) == nil {
		t.Error("the update was not added to what there was")
	}
	erro := func(code string) func(http.ResponseWriter, *message.Message) {
		return func(w http.ResponseWriter, preq *message.Message) {
			fmt.Fprintf(w, `{"messageType":"Erro","messageVersion":"2.2.0","errorCode":%q,"errorComponent":"D","errorDescription":"x","errorDetail":"y"}`, code)
		}
	}
	if preq := next(erro("307")); preq.Text("serialNum") != "11" {
		t.Errorf("serialNum %q, want 11", preq.Text("serialNum"))
	}
	if wait := time.Until(s.refreshStatus().Next); wait < 59*time.Minute {
		t.Errorf("after Erro 307 the next PReq may leave in %v, want the floor", wait)
	}
	if preq := next(with("12", entry)); preq.Has("serialNum") || a.cards.Lookup(otherCard) != nil {
		t.Error("after Erro 307 the PReq did not ask for everything, or the answer was not taken so")
	}
	if preq := next(erro("103")); preq.Text("serialNum") != "12" || a.cards.Lookup(card) == nil {
		t.Error("an Erro changed what is in use")
	}
	// A bad update changes neither ranges nor serial number (VP-17, PR-14).
	bad := `{"startRange":"4200000000000000","endRange":"4200000999999999","actionInd":"D","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0"}`
	next(with("13", bad))
	<-s.ds.erros
	if got := s.refreshStatus().Serial; got != "12" {
		t.Errorf("serial number %q after a bad update, want 12", got)
	}
	// Nor would it be any better the next time.
	preq := next(with("13", entry))
	if preq.Has("serialNum") || s.refreshStatus().Serial != "13" {
		t.Errorf("after a bad update: serialNum %q in the PReq, then %q in use", preq.Text("serialNum"), s.refreshStatus().Serial)
	}
	if preq = next(with("14", other)); preq.Text("serialNum") != "13" {
		t.Errorf("serialNum %q, want 13", preq.Text("serialNum"))
	}
	next(func(w http.ResponseWriter, preq *message.Message) { // bad, but not for its ranges
		text := pres(preq, entry)
		io.WriteString(w, strings.Replace(text, dsID, "x", 1))
	})
	<-s.ds.erros
	if preq = next(with("15", entry)); preq.Text("serialNum") != "14" {
		t.Errorf("serialNum %q, want 14", preq.Text("serialNum"))
	}
}

// TestAnotherDirectory: a directory is configured at another address. It is asked at
// once, and for everything; until that has come the former ranges are used. Its serial numbers
// and changes are not mixed with those of the one before, even if they look alike.
func TestAnotherDirectory(t *testing.T) {
	s := newShared(t, nil)
	former := s.peer
	with := func(entries string) func(http.ResponseWriter, *message.Message) {
		return func(w http.ResponseWriter, preq *message.Message) {
			text := pres(preq, entries)
			io.WriteString(w, text[:len(text)-1]+`,"serialNum":"1"}`)
		}
	}
	ask := func(peer Peer, says func(http.ResponseWriter, *message.Message)) (n *node, preq *message.Message) {
		t.Helper()
		s.peer, s.says = peer, says
		n = s.start()
		before := len(s.ds.preqs)
		n.refresh(t.Context())
		if len(s.ds.preqs) != before+1 {
			t.Fatalf("%d PReqs, want one", len(s.ds.preqs)-before)
		}
		return n, s.ds.preqs[before]
	}
	nothing := func(w http.ResponseWriter, preq *message.Message) {
		fmt.Fprintf(w, `{"messageType":"PRes","messageVersion":"2.2.0","threeDSServerTransID":%q,"dsTransID":%q,`+
			`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0","serialNum":"1"}`, preq.Text("threeDSServerTransID"), dsID)
	}
	ask(former, with(entry))
	s.due()
	before, _ := ask(former, nothing)

	next := former
	next.PReqURL += "/next"
	n, preq := ask(next, func(w http.ResponseWriter, _ *message.Message) { w.WriteHeader(http.StatusServiceUnavailable) })
	if preq.Has("serialNum") || n.cards.Lookup(card) == nil {
		t.Errorf("serialNum %q, ranges there: %t; want none, and those of before", preq.Text("serialNum"), n.cards.Lookup(card) != nil)
	}
	if n = s.start(); n.acquireForPReq(t.Context()) {
		t.Error("the next process asks at once, too, though the directory server was asked before")
	}
	s.due()
	if n, _ = ask(next, nothing); n.cards.Lookup(card) == nil || s.refreshStatus().Fault == "" {
		t.Error("that the new one has nothing to say was taken for news of what the former said")
	}
	if before.pollStore(t.Context()); before.acquireForPReq(t.Context()) {
		t.Error("a node that is configured as before asks its own directory server before it is time")
	}
	s.due()
	other := `{"startRange":"4100000000000000","endRange":"4100000999999999","actionInd":"A","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0"}`
	if n, preq = ask(next, with(other)); preq.Has("serialNum") {
		t.Errorf("serialNum %q of another directory server", preq.Text("serialNum"))
	}
	if n.cards.Lookup(card) != nil || n.cards.Lookup(otherCard) == nil {
		t.Error("the ranges are not those of the new directory server, and no others")
	}
	s.due()
	if _, preq = ask(next, with(entry)); preq.Text("serialNum") != "1" {
		t.Errorf("serialNum %q, want that of the new directory server", preq.Text("serialNum"))
	}
	s.peer, s.says = former, with(entry)
	n = s.start()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go n.run(ctx)
	var last *message.Message
	waittest.Until(t, "a PReq at the former one", func() bool {
		s.ds.mu.Lock()
		defer s.ds.mu.Unlock()
		if len(s.ds.preqs) > 6 {
			last = s.ds.preqs[6]
		}
		return last != nil
	})
	if cancel(); last.Has("serialNum") {
		t.Error("back at the former one, the PReq does not ask for everything")
	}
	<-n.done
}

// TestPR16SerialPerVersion: a directory that is asked in another version is asked for
// everything.
func TestPR16SerialPerVersion(t *testing.T) {
	s := newShared(t, nil)
	s.says = func(w http.ResponseWriter, preq *message.Message) {
		text := pres(preq, entry)
		if preq.Text("messageVersion") == "2.3.1" {
			text = fmt.Sprintf(
				`{"messageType":"PRes","messageVersion":"2.3.1","threeDSServerTransID":%q,"dsTransID":%q,"readOrder":"01","dsProtocolVersions":["2.2.0"],`+
					`"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000000999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]}`,
				preq.Text("threeDSServerTransID"), dsID)
		}
		io.WriteString(w, text[:len(text)-1]+`,"serialNum":"1"}`)
	}
	older, newer := s.peer.Versions, message.Versions()
	for i, step := range []struct {
		versions []message.Version
		serial   string
	}{{older, ""}, {older, "1"}, {newer, ""}, {newer, "1"}, {older, ""}} {
		s.peer.Versions = step.versions
		if i > 0 {
			s.due()
		}
		s.start().refresh(t.Context())
		if len(s.ds.preqs) != i+1 {
			t.Fatalf("step %d: %d PReqs", i, len(s.ds.preqs))
		}
		if got := s.ds.preqs[i].Text("serialNum"); got != step.serial {
			t.Errorf("step %d, version %s: serialNum %q, want %q", i, s.ds.preqs[i].Text("messageVersion"), got, step.serial)
		}
	}
}

// forgetful cannot keep anything for some time.
type forgetful struct {
	*storetest.Memory
	fails int
}

func (k *forgetful) PutState(ctx context.Context, key string, value []byte, l store.Lease) error {
	if k.fails--; k.fails >= 0 {
		return errors.New("too many clients")
	}
	return k.Memory.PutState(ctx, key, value, l)
}

// TestAnotherDirectoryLater: that a directory has moved is not forgotten when the
// store does not let it be asked at first.
func TestAnotherDirectoryLater(t *testing.T) {
	s := newShared(t, nil)
	s.start().refresh(t.Context())
	s.peer.PReqURL += "/next"
	n := s.start()
	n.keeper = &forgetful{s.keeper, 1}
	if n.refresh(t.Context()); len(s.ds.preqs) != 1 {
		t.Error("a PReq left that is not remembered")
	}
	n.pollStore(t.Context())
	if n.refresh(t.Context()); len(s.ds.preqs) != 2 {
		t.Errorf("%d PReqs, want one to each address", len(s.ds.preqs))
	}
}
