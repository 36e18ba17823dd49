package journal_test

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// An insider has every right on the database of a journal, and none of its keys.
type insider struct {
	t    *testing.T
	all  []*sql.DB
	rows map[string][]map[string]any // an older copy of all tables, one list for each database and table

	// The keys say which leaf an authentication has. An insider does not know it, and can only guess one.
	keys *journal.Keys
}

// insiderTables are the tables that an insider copies.
var insiderTables = []string{
	"journal_frames", "journal_places", "journal_records", "journal_messages", "journal_billing", "journal_billed", "journal_chains", "journal_seals",
	"journal_rollups", "journal_days", "journal_dirty", "journal_postings", "journal_hours",
}

// do runs a statement in each database.
func (i *insider) do(text string) {
	i.t.Helper()
	for _, db := range i.all {
		if _, err := db.ExecContext(i.t.Context(), text); err != nil {
			i.t.Fatalf("%s: %v", text, err)
		}
	}
}

// ask returns the texts in the first column of what a statement selects.
func (i *insider) ask(text string) (found []string) {
	i.t.Helper()
	for _, db := range i.all {
		rows, err := db.QueryContext(i.t.Context(), text)
		if err != nil {
			i.t.Fatalf("%s: %v", text, err)
		}
		for rows.Next() {
			var v string
			if err := rows.Scan(&v); err != nil {
				i.t.Fatal(err)
			}
			found = append(found, v)
		}
		_ = rows.Close()
	}
	return found
}

// addSeal adds a seal behind the newest one, with the signature of that.
func (i *insider) addSeal(number int, text string) {
	i.t.Helper()
	for _, db := range i.all {
		if _, err := db.ExecContext(i.t.Context(), `INSERT INTO journal_seals (n, text, key_id, signature)
			SELECT $1, $2, key_id, signature FROM journal_seals WHERE n = $3`, number, text, number-1); err != nil {
			i.t.Fatal(err)
		}
	}
}

// newestSeal returns the text of the newest seal, and its number.
func (i *insider) newestSeal() (text string, number int) {
	i.t.Helper()
	text = i.ask(`SELECT text FROM journal_seals ORDER BY n DESC LIMIT 1`)[0]
	_, _ = fmt.Sscanf(text, "threeds journal seal %d", &number)
	return text, number
}

// treeName returns the name of the tree that the tombstone names.
func (i *insider) treeName() string {
	i.t.Helper()
	_, rest, _ := strings.Cut(i.ask(`SELECT text FROM journal_seals WHERE text LIKE '%kind erasure%'`)[0], "spent ")
	name, _, ok := strings.Cut(rest, " ")
	if !ok {
		i.t.Fatal("the tombstone names no tree")
	}
	return name
}

// copyTables notes the rows of all tables.
func (i *insider) copyTables() {
	i.t.Helper()
	i.rows = map[string][]map[string]any{}
	for n, db := range i.all {
		for _, table := range insiderTables {
			rows, err := db.QueryContext(i.t.Context(), `SELECT * FROM `+table)
			if err != nil {
				i.t.Fatal(err)
			}
			names, _ := rows.Columns()
			for rows.Next() {
				values, places := make([]any, len(names)), make([]any, len(names))
				for c := range values {
					places[c] = &values[c]
				}
				if err := rows.Scan(places...); err != nil {
					i.t.Fatal(err)
				}
				row := map[string]any{}
				for c, name := range names {
					row[name] = values[c]
				}
				key := fmt.Sprint(n, " ", table)
				i.rows[key] = append(i.rows[key], row)
			}
			_ = rows.Close()
		}
	}
}

// restoreTables puts the rows of the copy back into tables.
func (i *insider) restoreTables(tables ...string) {
	i.t.Helper()
	for n, db := range i.all {
		for _, table := range tables {
			if _, err := db.ExecContext(i.t.Context(), `DELETE FROM `+table); err != nil {
				i.t.Fatal(err)
			}
			for _, row := range i.rows[fmt.Sprint(n, " ", table)] {
				var names, marks []string
				var values []any
				for name, value := range row {
					names, values = append(names, name), append(values, value)
					marks = append(marks, fmt.Sprintf("$%d", len(values)))
				}
				if _, err := db.ExecContext(i.t.Context(),
					`INSERT INTO `+table+` (`+strings.Join(names, ", ")+`) VALUES (`+strings.Join(marks, ", ")+`)`, values...); err != nil {
					i.t.Fatal(err)
				}
			}
		}
	}
}

// chainAgain links the frames of a chain again by SHA-256, which needs no key.
func (i *insider) chainAgain(day string) {
	i.t.Helper()
	for _, db := range i.all {
		rows, err := db.QueryContext(i.t.Context(), `SELECT frame, chain, digests FROM journal_frames
			WHERE chain LIKE '`+day+`%' ORDER BY chain, first`)
		if err != nil {
			i.t.Fatal(err)
		}
		type frame struct {
			n       int64
			chain   string
			digests []byte
		}
		var all []frame
		for rows.Next() {
			var f frame
			if err := rows.Scan(&f.n, &f.chain, &f.digests); err != nil {
				i.t.Fatal(err)
			}
			all = append(all, f)
		}
		_ = rows.Close()
		var link []byte
		var last int
		for n, f := range all {
			if n == 0 {
				link = journal.DigestOf(nil, []byte("threeds journal "+f.chain))
			}
			first := last + 1
			for ; len(f.digests) > 0; f.digests = f.digests[32:] {
				link, last = journal.NextLink(link, f.digests[:32]), last+1
			}
			for _, change := range []struct {
				text string
				args []any
			}{
				{`UPDATE journal_frames SET first = $1, last = $2, link = $3 WHERE frame = $4`, []any{first, last, link, f.n}},
				{`UPDATE journal_chains SET seq = $1, link = $2, closed = 0 WHERE chain = $3`, []any{last, link, f.chain}},
			} {
				if _, err := db.ExecContext(i.t.Context(), change.text, change.args...); err != nil {
					i.t.Fatal(err)
				}
			}
		}
	}
}

const (
	signedDay = "2026-03-30"
	openDay   = "2026-03-31"
)

// entryOf returns the condition of the nth entry of insiderJournal.
func entryOf(n int) string { return ` id = '` + idOf(n) + `' ` }

// idOf returns the id of the nth entry of insiderJournal.
func idOf(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// hourOf returns when the hour of the nth entry of insiderJournal begins.
func hourOf(n int) string {
	at := day.Add(time.Duration(n/24*24)*time.Hour + time.Duration(n%24)*time.Minute)
	return fmt.Sprint(at.Truncate(time.Hour).UnixMilli())
}

// frameOf returns the condition of the frame of the nth entry of insiderJournal, which has no other entry.
func frameOf(n int) string {
	return ` frame IN (SELECT p.frame FROM journal_places p WHERE p.` + entryOf(n)[1:] + `) `
}

// tricks are what an insider may do, each with a word for where it must be noticed at least: verify, readyz or page.
var tricks = []struct {
	name  string
	where string
	do    func(i *insider)
}{
	{"deletes an entry of a signed day", "verify", func(i *insider) { i.do(`DELETE FROM journal_frames WHERE` + frameOf(1)) }},
	{"cuts off the newest entry, and sets the chain back", "readyz verify", func(i *insider) {
		i.do(`UPDATE journal_chains SET seq = seq - 1, link = (SELECT f.link FROM journal_frames f WHERE f.chain = journal_chains.chain
			AND f.last = journal_chains.seq - 1) WHERE day = '` + openDay + `'`)
		i.do(`DELETE FROM journal_frames WHERE` + frameOf(29))
	}},
	{"blanks an entry of a signed day", "verify", func(i *insider) {
		i.do(`UPDATE journal_frames SET body = '' WHERE` + frameOf(1))
	}},
	{"blanks an entry of a day that is not signed yet", "readyz verify", func(i *insider) {
		i.do(`UPDATE journal_frames SET body = '' WHERE` + frameOf(25))
	}},
	{"swaps two entries", "verify", func(i *insider) {
		i.do(`UPDATE journal_frames SET first = 2, last = 2 WHERE` + frameOf(0))
		i.do(`UPDATE journal_frames SET first = 1, last = 1 WHERE` + frameOf(1))
	}},
	{"gives an entry the content of another one", "readyz verify", func(i *insider) {
		i.do(`UPDATE journal_frames SET body = (SELECT o.body FROM journal_frames o WHERE o.` + frameOf(27)[1:] + `) WHERE` + frameOf(25))
	}},
	{"deletes an entry of a signed day, and links the rest again", "readyz verify", func(i *insider) {
		i.do(`DELETE FROM journal_frames WHERE` + frameOf(1))
		i.chainAgain(signedDay)
	}},
	{"deletes an entry of a day that is not signed, and links the rest again", "readyz verify", func(i *insider) {
		i.do(`DELETE FROM journal_frames WHERE` + frameOf(25))
		i.chainAgain(openDay)
	}},
	{"unsigns a day", "readyz verify", func(i *insider) {
		i.do(`DELETE FROM journal_seals WHERE text LIKE '%kind day%'`)
		i.do(`UPDATE journal_chains SET closed = 0`)
	}},
	{"deletes a whole chain", "readyz verify", func(i *insider) {
		i.do(`DELETE FROM journal_frames WHERE chain LIKE '` + openDay + `%'`)
		i.do(`DELETE FROM journal_chains WHERE day = '` + openDay + `'`)
	}},
	{"deletes a whole signed day", "readyz verify", func(i *insider) {
		i.do(`DELETE FROM journal_frames WHERE chain LIKE '` + signedDay + `%'`)
		i.do(`DELETE FROM journal_chains WHERE day = '` + signedDay + `'`)
	}},
	{"deletes a whole signed day, and says that it is archived", "readyz verify", func(i *insider) {
		newest := i.ask(`SELECT text FROM journal_seals ORDER BY n DESC LIMIT 1`)[0]
		chain := i.ask(`SELECT chain FROM journal_chains WHERE day = '` + signedDay + `'`)[0]
		var number int
		_, _ = fmt.Sscanf(newest, "threeds journal seal %d", &number)
		i.addSeal(number+1, fmt.Sprintf("threeds journal seal %d\nkind archive\nbefore %x\nat 2026-03-31T23:00:00Z\nby node:a\n"+
			"file %s.jsonl 6 ab\narchived %s\n", number+1, journal.DigestOf(nil, []byte(newest)), signedDay, chain))
		i.do(`DELETE FROM journal_frames WHERE chain LIKE '` + signedDay + `%'`)
		i.do(`UPDATE journal_chains SET closed = 2 WHERE day = '` + signedDay + `'`)
	}},
	{"deletes a whole signed day, and marks its chains as archived", "readyz verify", func(i *insider) {
		i.do(`DELETE FROM journal_frames WHERE chain LIKE '` + signedDay + `%'`)
		i.do(`UPDATE journal_chains SET closed = 2 WHERE day = '` + signedDay + `'`)
	}},
	{"deletes the newest heads", "readyz", func(i *insider) { i.do(`DELETE FROM journal_seals WHERE n > 3`) }},
	{"deletes a head among others", "readyz verify", func(i *insider) { i.do(`DELETE FROM journal_seals WHERE n = 3`) }},
	{"deletes the oldest heads", "verify", func(i *insider) { i.do(`DELETE FROM journal_seals WHERE n < 2`) }},
	{"deletes the tombstone of an erasure", "readyz verify", func(i *insider) { i.do(`DELETE FROM journal_seals WHERE text LIKE '%kind erasure%'`) }},
	{"deletes a legal hold", "readyz verify", func(i *insider) { i.do(`DELETE FROM journal_seals WHERE text LIKE '%kind hold%'`) }},
	{"changes a legal hold", "readyz verify", func(i *insider) {
		i.do(`UPDATE journal_seals SET text = replace(text, 'hold ', 'hold A') WHERE text LIKE '%kind hold%'`)
	}},
	{"makes a seal that lifts a legal hold", "readyz verify", func(i *insider) {
		newest := i.ask(`SELECT text FROM journal_seals ORDER BY n DESC LIMIT 1`)[0]
		held := i.ask(`SELECT text FROM journal_seals WHERE text LIKE '%kind hold%'`)[0]
		var number, hold int
		_, _ = fmt.Sscanf(newest, "threeds journal seal %d", &number)
		_, _ = fmt.Sscanf(held, "threeds journal seal %d", &hold)
		i.addSeal(number+1, fmt.Sprintf("threeds journal seal %d\nkind hold\nbefore %x\nat 2026-03-31T23:00:00Z\nby node:a\nlift %d\n",
			number+1, journal.DigestOf(nil, []byte(newest)), hold))
	}},
	{"makes a tombstone, and blanks the entry", "readyz verify", func(i *insider) {
		newest := i.ask(`SELECT text FROM journal_seals ORDER BY n DESC LIMIT 1`)[0]
		chain := i.ask(`SELECT chain FROM journal_chains WHERE day = '` + openDay + `'`)[0]
		var number int
		_, _ = fmt.Sscanf(newest, "threeds journal seal %d", &number)
		text := fmt.Sprintf("threeds journal seal %d\nkind erasure\nbefore %x\nat 2026-03-31T23:00:00Z\nby node:a\nerased %s 2-2\ncount 1\n",
			number+1, journal.DigestOf(nil, []byte(newest)), chain)
		i.addSeal(number+1, text)
		i.do(`UPDATE journal_frames SET body = '' WHERE` + frameOf(25))
	}},
	{"makes a tombstone that has nodes forget the key of another authentication", "readyz verify", func(i *insider) {
		newest, number := i.newestSeal()
		tree := i.treeName()
		i.addSeal(number+1, fmt.Sprintf("threeds journal seal %d\nkind erasure\nbefore %x\n"+
			"at 2026-03-31T23:00:00Z\nby node:a\ncount 0\nspent %s %016x\n",
			number+1, journal.DigestOf(nil, []byte(newest)), tree, journal.LeafOf(i.keys, openDay, idOf(25))))
	}},
	{"adds keys to be forgotten to a tombstone", "readyz verify", func(i *insider) {
		i.do(fmt.Sprintf(`UPDATE journal_seals SET text = text || 'spent %s %016x
' WHERE text LIKE '%%kind erasure%%'`,
			i.treeName(), journal.LeafOf(i.keys, openDay, idOf(25))))
	}},
	{"replays a tombstone", "readyz verify", func(i *insider) {
		_, number := i.newestSeal()
		i.addSeal(number+1, i.ask(`SELECT text FROM journal_seals WHERE text LIKE '%kind erasure%'`)[0])
	}},
	{"brings back from a copy what was erased", "verify", func(i *insider) {
		i.restoreTables("journal_frames", "journal_places", "journal_records", "journal_messages")
	}},
	{"puts the signature of another day in place", "readyz verify", func(i *insider) {
		i.do(`UPDATE journal_seals SET signature = (SELECT o.signature FROM journal_seals o WHERE o.text LIKE '%kind day%')
			WHERE n = (SELECT max(n) FROM journal_seals)`)
	}},
	{"changes the text of a seal", "readyz verify", func(i *insider) {
		i.do(`UPDATE journal_seals SET text = replace(text, 'by node', 'by nobody') WHERE n = 2`)
	}},
	{"changes what a search shows", "page readyz", func(i *insider) {
		i.do(`UPDATE journal_records SET status = 'completed', fault = 'x' WHERE` + entryOf(25))
	}},
	{"gives a record to another merchant", "page readyz", func(i *insider) { i.do(`UPDATE journal_records SET merchant = 'shop 7' WHERE` + entryOf(25)) }},
	{"deletes a record from searches", "readyz", func(i *insider) { i.do(`DELETE FROM journal_records WHERE` + entryOf(25)) }},
	{"deletes a record of a signed day from searches", "readyz", func(i *insider) { i.do(`DELETE FROM journal_records WHERE` + entryOf(1)) }},
	{"deletes postings of a signed day", "readyz", func(i *insider) {
		i.do(`DELETE FROM journal_postings WHERE made = ` + hourOf(1))
	}},
	{"deletes counts of a signed day", "readyz", func(i *insider) {
		i.do(`DELETE FROM journal_rollups WHERE merchant = '' AND start = ` + hourOf(1))
	}},
	{"hides a step of an authentication", "readyz", func(i *insider) { i.do(`DELETE FROM journal_places WHERE` + entryOf(25)) }},
	{"says that an entry was erased", "readyz", func(i *insider) { i.do(`UPDATE journal_places SET gone = 1 WHERE` + entryOf(25)) }},
	{"leads a place to the entry of another authentication", "readyz", func(i *insider) {
		i.do(`UPDATE journal_places SET frame = (SELECT o.frame FROM journal_places o WHERE o.` + entryOf(27)[1:] + `) WHERE` + entryOf(25))
	}},
	{"removes the counts of an hour", "readyz", func(i *insider) { i.do(`DELETE FROM journal_rollups WHERE merchant = ''`) }},
	{"removes the postings of an hour", "readyz", func(i *insider) { i.do(`DELETE FROM journal_postings`) }},
	{"has a frame say that it has one entry more", "readyz verify", func(i *insider) {
		i.do(`UPDATE journal_frames SET last = last + 1 WHERE` + frameOf(25))
	}},
	{"changes a counter for billing", "page", func(i *insider) { i.do(`UPDATE journal_billing SET n = n + 7`) }},
	{"deletes the counters for billing", "readyz", func(i *insider) {
		i.do(`DELETE FROM journal_billing`)
		i.do(`DELETE FROM journal_billed`)
	}},
	{"restores an older copy of everything", "readyz", func(i *insider) { i.restoreTables(insiderTables...) }},
}

// fillForInsider fills a journal: a signed day, and one that goes on, with heads, and an erasure. The copy is
// of before the erasure.
func fillForInsider(t *testing.T, st journal.Store, keys *journal.Keys) *insider {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	head := func(at time.Time) {
		t.Helper()
		_, err := st.Head(t.Context(), at, nil)
		must(err)
	}
	entryOf := func(n int) journal.Entry {
		e := entry(keys, n, journal.Claimed)
		e.Record.Created = day.Add(time.Duration(n/24*24)*time.Hour + time.Duration(n%24)*time.Minute)
		if n%24 == 4 {
			e.CardHash = keys.CardHash("4000000000000010")
		}
		return e
	}
	for n := range 6 {
		write(t, st, entryOf(n))
		head(day.Add(time.Duration(n) * time.Hour))
	}
	must(st.Sign(t.Context(), day.Add(13*time.Hour)))
	for n := 24; n < 30; n++ {
		write(t, st, entryOf(n))
	}
	head(day.Add(30 * time.Hour))
	i := &insider{t: t, all: journal.AllDatabases(t, st), keys: keys}
	i.copyTables()
	if _, n, err := st.Erase(t.Context(), journal.Query{Card: "4000000000000010", By: "cli:jo"}); err != nil || n != 2 {
		t.Fatalf("%d entries were erased, %v", n, err)
	}
	_, err := st.AddHold(t.Context(), journal.Hold{Name: "case 1", Merchant: "shop 9", Reason: "a dispute", By: "cli:jo"})
	must(err)
	head(day.Add(31 * time.Hour))
	must(st.Roll(t.Context(), day.Add(31*time.Hour), aDay))
	if faults := st.Faults(); len(faults) > 0 {
		t.Fatal(faults)
	}
	return i
}

// whereNoticed says where something that was changed in the store is noticed, after the server has made its round.
func whereNoticed(t *testing.T, st journal.Store, keys *journal.Keys) (all []string) {
	t.Helper()
	now := day.AddDate(0, 0, 1).Add(13 * time.Hour)
	for _, at := range []time.Time{now, now.Add(time.Hour)} {
		if err := st.Sign(t.Context(), at); err != nil {
			t.Errorf("signing: %v", err)
		}
		if _, err := st.Head(t.Context(), at, nil); err != nil {
			t.Errorf("head: %v", err)
		}
		if err := st.Roll(t.Context(), at, aDay); err != nil {
			t.Errorf("counting: %v", err)
		}
	}
	if len(st.Faults()) > 0 {
		all = append(all, "readyz")
	}
	var b bytes.Buffer
	_, exported := journal.WriteJSONLines(t.Context(), &b, st, keys, journal.Query{At: now})
	if exported != nil && !journal.IsChanged(exported) {
		t.Error(exported)
	}
	_, verified := journal.Verify(bytes.NewReader(b.Bytes()), keys.PublicKey())
	if exported != nil && verified == nil {
		t.Errorf("the export says %v, and verify says %v", exported, verified)
	}
	if verified != nil {
		all = append(all, "verify")
	}
	page, err := st.Search(t.Context(), journal.Query{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Records {
		if r.IsChanged != (r.Status == journal.ChangedInStore) || r.IsChanged && r.Merchant != "" {
			t.Errorf("a changed record is told as %+v", r)
		}
		if r.IsChanged {
			all = append(all, "page")
		}
	}
	counts, err := st.Billing(t.Context(), allMonths)
	if err != nil {
		t.Logf("billing: %v", err)
	}
	for _, c := range counts {
		if c.IsChanged {
			all = append(all, "page")
		}
	}
	return all
}

// TestA2AnInsiderWithoutKeysIsNoticed: whatever somebody changes who has the database and no keys, verify, /readyz or
// the page says so, and the server signs none of it.
func TestA2AnInsiderWithoutKeysIsNoticed(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForInsider(t, st, keys)
		if noticed := whereNoticed(t, st, keys); len(noticed) > 0 {
			t.Fatalf("nothing was changed, and it is noticed: %v, %v", noticed, st.Faults())
		}
	})
	for n, trick := range tricks {
		t.Run(trick.name, func(t *testing.T) {
			t.Parallel()
			stores := eachStore
			if n%5 != 0 { // what is checked is the same code, and a schema of PostgreSQL takes seconds
				stores = sqliteAlone
			}
			stores(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
				i := fillForInsider(t, st, keys)
				links, newest := map[string]bool{}, int64(0)
				for _, link := range i.ask(linksText(t)) {
					links[strings.ToLower(link)] = true
				}
				if err := st.ReadSeals(t.Context(), 1, func(s journal.Seal) error { newest = s.N; return nil }); err != nil {
					t.Fatal(err)
				}
				forgotten := journal.CountForgotten(keys)
				trick.do(i)
				noticed := whereNoticed(t, st, keys)
				if n := journal.CountForgotten(keys); n != forgotten {
					t.Errorf("the server has forgotten %d keys, and before the trick %d", n, forgotten)
				}
				for _, where := range strings.Fields(trick.where) {
					if !strings.Contains(strings.Join(noticed, " "), where) {
						t.Errorf("not noticed by %s, only by %v: %v", where, noticed, st.Faults())
					}
				}
				if err := st.ReadSeals(t.Context(), 1, func(s journal.Seal) error {
					for line := range strings.SplitSeq(s.Text, "\n") {
						if part := strings.Fields(line); s.N > newest && len(part) == 4 && part[0] == "chain" && !links[part[3]] {
							t.Errorf("the server signed\n%s", s.Text)
						}
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func number(n int64) string { return fmt.Sprint(n) }

func hexOf(b []byte) string { return fmt.Sprintf("%x", b) }

// linksText selects all links of a journal in hexadecimal.
func linksText(t *testing.T) string {
	if strings.HasSuffix(t.Name(), "/postgres") {
		return `SELECT encode(link, 'hex') FROM journal_frames`
	}
	return `SELECT hex(link) FROM journal_frames`
}

// TestD121WhatComesLateIsInTheSealOfTheNextDay: an entry for a day that was signed goes into a chain of its own. The
// seal of the next day names it, and there is one seal for that day.
func TestD121WhatComesLateIsInTheSealOfTheNextDay(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		at := func(n int) journal.Entry {
			e := entry(keys, n, journal.Claimed)
			e.Record.Created = day.Add(time.Duration(n) * time.Minute)
			return e
		}
		write(t, st, at(0))
		for n := 1; n <= 3; n++ {
			if err := st.Sign(t.Context(), day.AddDate(0, 0, n)); err != nil {
				t.Fatal(err)
			}
			write(t, st, at(n))
		}
		now := day.AddDate(0, 0, 4)
		if err := st.Sign(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if faults := st.Faults(); len(faults) > 0 {
			t.Errorf("nothing was changed, and it says %q", faults)
		}
		var b bytes.Buffer
		if _, err := journal.WriteJSONLines(t.Context(), &b, st, keys, journal.Query{At: now}); err != nil {
			t.Error(err)
		}
		if got, err := journal.Verify(&b, keys.PublicKey()); err != nil || got.Records != 4 {
			t.Errorf("verified %+v, %v, want 4 records", got, err)
		}
	})
}

// TestA2NamesOfChainsSignNothing: chains without entries, or with names or days that no server gives them, are told,
// and not signed. The server neither stops nor signs a text that nobody can read, and goes on when they are gone.
func TestA2NamesOfChainsSignNothing(t *testing.T) {
	t.Parallel()
	for name, row := range map[string][2]string{
		"a line more": {"2026-03-30/a 9 ab\nchain 2026-03-30/b", "2026-03-30"},
		"two words":   {"2026-03-30/a b", "2026-03-30"},
		"no day":      {"2026-03-30/ab", "1"},
		"another day": {"2026-03-30/ab", "2026-03-31"},
		"no entries":  {"2026-03-30/ab", "2026-03-30"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
				write(t, st, entry(keys, 0, journal.Answered))
				begin := sha256.Sum256([]byte("threeds journal " + row[0]))
				db := journal.Databases(t, st)[0]
				if _, err := db.ExecContext(t.Context(), `INSERT INTO journal_chains (chain, day, seq, link, closed)
					VALUES ($1, $2, 0, $3, 0)`, row[0], row[1], begin[:]); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if _, err := st.Head(t.Context(), day.Add(time.Hour), nil); err != nil {
						t.Fatal(err)
					}
				}
				if faults := st.Faults(); len(faults) != 1 || !strings.Contains(faults[0], "which no server writes") {
					t.Errorf("faults: %q", faults)
				}
				if _, err := db.ExecContext(t.Context(), `DELETE FROM journal_chains WHERE chain = $1`, row[0]); err != nil {
					t.Fatal(err)
				}
				if err := st.Sign(t.Context(), day.AddDate(0, 0, 1)); err != nil {
					t.Fatal(err)
				}
				var b bytes.Buffer
				q := journal.Query{At: day.AddDate(0, 0, 1)}
				if n, err := journal.WriteJSONLines(t.Context(), &b, st, keys, q); err != nil || n != 1 {
					t.Fatalf("%d records, %v", n, err)
				}
				if _, err := journal.Verify(&b, keys.PublicKey()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestA2ADayWithoutItsKeyStopsNothing: entries whose key somebody has deleted are told as changed, and the days after
// theirs are signed.
func TestA2ADayWithoutItsKeyStopsNothing(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, _ journal.Store, keys *journal.Keys) {
		dir := t.TempDir()
		open := func() journal.Store {
			st, err := journal.OpenFiles(dir, keys)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = st.Close() })
			return st
		}
		first := open()
		write(t, first, entry(keys, 0, journal.Answered), entry(keys, 24, journal.Answered))
		if _, err := journal.Databases(t, first)[0].ExecContext(t.Context(),
			`DELETE FROM journal_keys WHERE day = '2026-03-30'`); err != nil {
			t.Fatal(err)
		}
		st := open() // as a server that starts again, and does not remember the key
		if err := st.Sign(t.Context(), day.AddDate(0, 0, 3)); err != nil {
			t.Errorf("nothing is signed: %v", err)
		}
		if faults := fmt.Sprint(st.Faults()); !strings.Contains(faults, "does not open") {
			t.Errorf("faults: %s", faults)
		}
		if n, err := journal.WriteJSONLines(t.Context(), new(bytes.Buffer), st, keys,
			journal.Query{From: day.AddDate(0, 0, 1), At: day.AddDate(0, 0, 3)}); err != nil || n != 1 {
			t.Errorf("an export of the day after: %d records, %v", n, err)
		}
		if _, err := st.Show(t.Context(), "00000000-0000-4000-8000-000000000000"); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("an entry of the day: %v", err)
		}
	})
}
