package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// TestJ6AllAtOnce: two processes of one journal write, erase, sign, sweep, search, export and follow at the same time,
// and change one file of keys, or one each. In the end each authentication is either there with all of its text, or
// erased with a tombstone and without its key, and all are billed. What is neither was lost, or was brought back.
func TestJ6AllAtOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres", "postgres with two files"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file, _ := newKeyFile(t)
			files := []journal.KeyFile{file, file}
			if kind == "postgres with two files" {
				files[1] = copyKeyFile(t, file)
			}
			dir, at := t.TempDir(), ""
			if kind != "sqlite" {
				at = pgtest.Get(t).Schema(t)
			}
			var nodes []journal.Store
			var keys []*journal.Keys
			for _, f := range files {
				k := load(t, f)
				var st journal.Store
				var err error
				if kind == "sqlite" {
					st, err = journal.OpenFiles(dir, k)
				} else {
					st, err = journal.OpenPostgres(t.Context(), at, k)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = st.Close() })
				nodes, keys = append(nodes, st), append(keys, k)
			}
			const cards, perCard = 12, 12
			pan := func(card int) string { return fmt.Sprintf("40000000000%05d", card) }
			entryOf := func(n int, kind journal.Kind) journal.Entry {
				e := canaryEntry(keys[0], n)
				e.Kind, e.CardHash = kind, keys[0].CardHash(pan(n%cards))
				e.Record.Created = day.Add(time.Duration(n) * time.Second)
				if kind == journal.Claimed {
					e.Record.Status = "in_progress"
				}
				return e
			}
			addHold(t, nodes[0], journal.Hold{Name: "case 1", Card: pan(1)})
			now := day.Add(6 * time.Hour) // the day goes on
			var all sync.WaitGroup
			for node, st := range nodes {
				all.Go(func() { // the writer
					for n := node; n < cards*perCard; n += 2 {
						for _, kind := range []journal.Kind{journal.Claimed, journal.Answered} {
							retry(t, func() error {
								_, err := st.Write(t.Context(), []journal.Entry{entryOf(n, kind)})
								return err
							})
						}
					}
				})
				all.Go(func() { // erasures: of cards that both nodes erase, and of one that is held
					for range 3 {
						for card := range 4 {
							retry(t, func() error {
								_, _, err := st.Erase(t.Context(), journal.Query{Card: pan(card)})
								return err
							})
						}
					}
				})
				all.Go(func() { // duties
					for i := range 12 {
						retry(t, func() error { return st.Sign(t.Context(), now) })
						retry(t, func() error {
							_, err := st.Head(t.Context(), now.Add(time.Duration(i)*time.Minute), nil)
							return err
						})
						retry(t, func() error { return st.Expire(t.Context(), day.AddDate(0, 0, -3)) })
						retry(t, func() error { return st.Roll(t.Context(), now, time.Second) })
						journal.WriteForgotten(keys[node])
					}
				})
				all.Go(func() { // readers
					for range 12 {
						_, _ = st.Search(t.Context(), journal.Query{Limit: 200})
						_, _ = st.Show(t.Context(), idOf(node))
						_, _ = st.Billing(t.Context(), allMonths)
						_, _ = journal.WriteJSONLines(t.Context(), io.Discard, st, keys[node], journal.Query{At: now})
						_ = (&journal.Follower{Store: st, Keys: keys[node], To: io.Discard}).Run(t.Context())
						_, _ = files[node].Load()
						_ = st.(journal.Archive).Visit(t.Context(), journal.Visitor{ // a backup, which may begin again
							Billing: func(journal.ArchivedBilling) error { return nil },
							Seal:    func(journal.Seal) error { return nil },
							Day:     func(d journal.ArchivedDay) error { return keys[node].CheckDay(d) },
							Chain:   func(journal.ArchivedChain) error { return nil },
							Frame:   func(journal.ArchivedFrame) error { return nil },
						})
						_ = keys[node].FileProblem()
					}
				})
			}
			all.Wait()
			for node, st := range nodes {
				retry(t, func() error { return st.Sign(t.Context(), now.AddDate(0, 0, 3)) })
				journal.WriteForgotten(keys[node])
			}
			counts := readBilling(t, nodes[0], allMonths)
			sum := int64(0)
			for _, n := range counts {
				sum += n
			}
			if sum != cards*perCard {
				t.Errorf("%d are billed, want %d", sum, cards*perCard)
			}
			texts := journal.OpenedTexts(t, nodes[0])
			gone := 0
			for n := range cards * perCard {
				_, err := nodes[0].Show(t.Context(), idOf(n))
				isGone := errors.Is(err, journal.ErrNotFound)
				if err != nil && !isGone {
					t.Errorf("%d: %v", n, err)
				}
				if isGone {
					gone++
				}
				if (n%cards >= 4 || n%cards == 1) && isGone {
					t.Errorf("authentication %d was not erased, and is not there", n)
				}
				if bytes.Contains([]byte(texts), fmt.Appendf(nil, `"canary-message-%02d-`, n)) == isGone {
					t.Errorf("authentication %d is gone: %t, and its text opens: %t", n, isGone, isGone)
				}
			}
			for node, st := range nodes {
				if faults := st.Faults(); len(faults) > 0 {
					t.Errorf("node %d has the faults %q", node, faults)
				}
				if problem := keys[node].FileProblem(); problem != "" {
					t.Errorf("node %d: %s", node, problem)
				}
				if n := journal.CountForgotten(load(t, files[node])); n != gone {
					t.Errorf("the file of node %d has forgotten %d keys, and %d are gone", node, n, gone)
				}
			}
			var b bytes.Buffer
			if _, err := journal.WriteJSONLines(t.Context(), &b, nodes[1], keys[1], journal.Query{At: now.AddDate(0, 0, 3)}); err != nil {
				t.Fatal(err)
			}
			if got, err := journal.Verify(&b, keys[0].PublicKey()); err != nil || got.Forgotten > 0 {
				t.Errorf("%+v, %v", got, err)
			} else {
				t.Logf("%+v, %d gone", got, gone)
			}
		})
	}
}
