package journal_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// An evidenceLine is a line of an export, as somebody reads it who has nothing but the page about it.
type evidenceLine struct {
	Type, Chain, Salt, Digest, Link, Text, Signature, At string
	Seq, Lines                                           int64
	Erased                                               bool
	Record                                               json.RawMessage
}

// readEvidence checks the chains of an export by hand, and returns its lines by chain and sequence number.
func readEvidence(t *testing.T, text string, key ed25519.PublicKey) map[string]evidenceLine {
	t.Helper()
	all := map[string]evidenceLine{}
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	var chain, before string // before is the hash of the seal before
	var link [32]byte
	for n, text := range lines {
		var l evidenceLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if (l.Type == "header") != (n == 0) || (l.Type == "end") != (n == len(lines)-1) {
			t.Errorf("line %d is of type %s", n+1, l.Type)
		}
		signature, _ := base64.StdEncoding.DecodeString(l.Signature)
		switch l.Type {
		case "record", "link":
			if l.Chain != chain {
				chain, link = l.Chain, sha256.Sum256([]byte("threeds journal "+l.Chain))
			}
			digest, _ := hex.DecodeString(l.Digest)
			link = sha256.Sum256(append(link[:], digest...))
			if hex.EncodeToString(link[:]) != l.Link {
				t.Errorf("line %d: the link is not SHA-256 of the one before and the digest", n+1)
			}
			salt, _ := hex.DecodeString(l.Salt)
			sum := sha256.Sum256(append(salt, l.Record...))
			if l.Type == "record" && (len(salt) == 0 || hex.EncodeToString(sum[:]) != l.Digest) {
				t.Errorf("line %d: the digest is not SHA-256 of salt and record", n+1)
			}
			if l.Type == "link" && (l.Salt != "" || l.Record != nil) {
				t.Errorf("line %d: a link has content", n+1)
			}
			all[fmt.Sprint(l.Chain, " ", l.Seq)] = l
		case "seal":
			if !ed25519.Verify(key, []byte(l.Text), signature) || !strings.Contains(l.Text, fmt.Sprintf("seal %d\n", l.Seq)) ||
				!strings.Contains(l.Text, "\nbefore "+before+"\n") {
				t.Errorf("line %d: the seal", n+1)
			}
			sum := sha256.Sum256([]byte(l.Text))
			before = hex.EncodeToString(sum[:])
			for line := range strings.SplitSeq(l.Text, "\n") {
				if part := strings.Fields(line); len(part) == 4 && part[0] == "chain" && strings.Contains(l.Text, "\nkind day\n") {
					all[part[1]+" day"] = evidenceLine{Type: "day", Chain: part[1], Link: part[3]}
				}
			}
		case "end":
			sum := sha256.Sum256([]byte(strings.Join(lines[:n], "")))
			if l.Lines != int64(n) || l.Digest != hex.EncodeToString(sum[:]) ||
				!ed25519.Verify(key, fmt.Appendf(nil, "threeds journal export %d %x %s", l.Lines, sum, l.At), signature) {
				t.Errorf("the end: %+v", l)
			}
		}
	}
	return all
}

// TestD121ChainsAreAsThePageSays: checked by hand, there is one chain for each day and writer. Erasing removes
// content and salt, and leaves digest and link. A filtered export has the same links. Days that are over are
// signed, others are not.
func TestD121ChainsAreAsThePageSays(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		for _, n := range []int{0, 1, 2, 24, 25} { // two days
			e := entry(keys, n, journal.Claimed)
			if n == 1 {
				e.CardHash = keys.CardHash("4000000000000010")
			}
			write(t, st, e)
		}
		if err := st.Sign(t.Context(), day.AddDate(0, 0, 1)); err != nil { // the second day is not over
			t.Fatal(err)
		}
		before := readEvidence(t, export(t, st, keys, journal.Query{At: day}), keys.PublicKey())
		chains, days := map[string]int{}, 0
		for name, l := range before {
			if l.Type == "day" {
				days++
				if l.Link != before[l.Chain+" 3"].Link || !strings.HasPrefix(name, "2026-03-30/") {
					t.Errorf("%s is signed up to %s", name, l.Link)
				}
				continue
			}
			chains[l.Chain]++
		}
		if len(chains) != 2 || days != 1 || len(before) != 6 {
			t.Errorf("chains %v, %d days signed, %d lines", chains, days, len(before))
		}
		filtered := readEvidence(t, export(t, st, keys, journal.Query{Merchant: "shop 1", At: day}), keys.PublicKey())
		if _, _, err := st.Erase(t.Context(), journal.Query{Card: testCard}); err != nil {
			t.Fatal(err)
		}
		erased := readEvidence(t, export(t, st, keys, journal.Query{At: day}), keys.PublicKey())
		links := 0
		for name, was := range before {
			for kind, l := range map[string]evidenceLine{"filtered": filtered[name], "erased": erased[name]} {
				if l.Link != was.Link || l.Digest != was.Digest || l.Signature != was.Signature || l.Erased != (kind == "erased" && l.Type == "link") {
					t.Errorf("%s, %s: %+v, was %+v", kind, name, l, was)
				}
				if l.Type == "link" {
					links++
				}
			}
		}
		if links != 3+4 {
			t.Errorf("%d bare links, want 3 of the other merchant and 4 of the erased card", links)
		}
	})
}

// TestD121EachWriterHasItsChain: two processes write the same day of one journal, each into a chain of its own.
func TestD121EachWriterHasItsChain(t *testing.T) {
	t.Parallel()
	keys, dir := journal.NewKeys(), t.TempDir()
	for n := range 2 {
		st, err := journal.OpenFiles(dir, keys)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		write(t, st, entry(keys, n, journal.Claimed))
		if n == 0 {
			continue
		}
		text := export(t, st, keys, journal.Query{At: day})
		if got := readEvidence(t, text, keys.PublicKey()); len(got) != 2 || strings.Count(text, `"seq":1`) != 2 {
			t.Errorf("%s", text)
		}
	}
}

// A slowStore notes when entries are written.
type slowStore struct {
	journal.Store
	times chan time.Time
}

func (s slowStore) Write(_ context.Context, entries []journal.Entry) (int, error) {
	for range entries {
		s.times <- time.Now()
	}
	return len(entries), nil
}

// TestD125EntriesAreWrittenWithinASecond: however few or many they are, so that every node finds them.
func TestD125EntriesAreWrittenWithinASecond(t *testing.T) {
	for _, many := range []int{1, 3, 5000} {
		synctest.Test(t, func(t *testing.T) {
			st := slowStore{times: make(chan time.Time, 2*many)}
			keys := journal.NewKeys()
			j := journal.New(st, keys, slog.New(slog.DiscardHandler), time.Now)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan bool)
			go func() {
				j.Run(ctx)
				close(ended)
			}()
			for range 2 { // the second time after a rest
				began := time.Now()
				for n := range many {
					j.Add(entry(keys, n, journal.Claimed))
				}
				for range many {
					if took := (<-st.times).Sub(began); took > time.Second {
						t.Fatalf("of %d entries one is written after %s", many, took)
					}
				}
				time.Sleep(time.Minute)
			}
			stop()
			<-ended
		})
	}
}
