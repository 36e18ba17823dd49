package journal

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// evidenceParts are what the evidence needs of the tables of a journal.
type evidenceParts interface {
	// eachPart calls do with each database, and with its name.
	eachPart(ctx context.Context, do func(name string, db *database) error) error
	// partOf returns the database that has the chains of a day; nil if there is none.
	partOf(ctx context.Context, day string) (*database, error)
	// sealsPart returns the database that has the seals. It is made when create is set; else it is nil if there is none.
	sealsPart(ctx context.Context, create bool) (*database, error)
}

// An evidence makes the seals of a journal, and checks before it signs. What does not fit it
// reports, and does not sign.
type evidence struct {
	parts evidenceParts
	keys  *Keys

	mu     sync.Mutex
	known  known
	seen   int64 // the newest seal that this process has seen, which is never gone later
	hash   []byte
	faults []string // what does not fit, each once, the oldest first
	memo   holdMemo

	listed atomic.Pointer[[]string] // what list has returned last
}

// headInterval is how long after a head there is no other one: a little less than the minute in which each node looks.
// An hour in which nothing happens has one head.
const (
	headInterval = 50 * time.Second
	quietTime    = time.Hour
)

// signTime is how long after the end of a day its seal may be missing.
const signTime = time.Hour

// A faultError says that something in the store is not as it was written.
type faultError struct{ what string }

func (e *faultError) Error() string { return "journal: changed in the store: " + e.what }

// nodeName is how seals name this process.
func nodeName() string {
	host, _ := os.Hostname() // without a name the seal says so
	return "node:" + cmp.Or(host, "unknown")
}

// report adds a fault. The rest is an error that is none.
func (e *evidence) report(err error) error {
	fault, isFault := errors.AsType[*faultError](err)
	if !isFault {
		return err
	}
	if !slices.Contains(e.faults, fault.what) {
		e.faults = append(e.faults, fault.what)
	}
	return nil
}

// refresh reads the seals that came since the last call. The newest one that is known must still be there. What they
// name is forgotten in memory, if all of them are as they were written.
func (e *evidence) refresh(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			e.known = newKnown() // the next call reads all of them
		}
	}()
	db, err := e.parts.sealsPart(ctx, false)
	if err != nil {
		return err
	}
	if e.known.chains == nil {
		e.known = newKnown()
	}
	was := e.known.n
	var newest Seal
	err = readSealsOf(ctx, db, was, func(s Seal) error {
		newest = s
		if s.N == was {
			if !bytes.Equal(s.Hash(), e.known.hash) {
				return &faultError{fmt.Sprintf("seal %d is another one", was)}
			}
			return nil
		}
		if what := e.known.add(&s); what != "" {
			return &faultError{what}
		}
		if s.N == e.seen && !bytes.Equal(s.Hash(), e.hash) {
			return &faultError{fmt.Sprintf("seal %d is another one", s.N)}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case newest.N < e.seen:
		return &faultError{fmt.Sprintf("seal %d is gone, and the newest one is %d: the journal was set back",
			e.seen, newest.N)}
	case newest.N > 0 && !newest.isSignedBy(e.keys.publicKeys()):
		return &faultError{fmt.Sprintf("seal %d is not signed by a key of this journal", newest.N)}
	case e.known.first > max(e.known.kept, 1):
		return &faultError{fmt.Sprintf("the seals before %d are gone", e.known.first)}
	}
	e.seen, e.hash = newest.N, e.known.hash
	finished, rest := e.finishedErasures(ctx, e.known.spent)
	e.known.spent = rest
	e.keys.forgetInMemory(finished)
	return nil
}

// append appends a seal behind those that are known.
func (e *evidence) append(ctx context.Context, s statement) error {
	db, err := e.parts.sealsPart(ctx, true)
	if err != nil {
		return err
	}
	s.by = nodeName()
	if err := db.appendSeal(ctx, func(newest *Seal) (Seal, error) {
		if newest.N != e.known.n {
			return Seal{}, errOtherSeal
		}
		s.n, s.before = e.known.n+1, e.known.hash
		return e.keys.seal(&s), nil
	}); err != nil {
		return err
	}
	return e.refresh(ctx)
}

// errOtherSeal says that another process was the first to make the next seal.
var errOtherSeal = errors.New("journal: another node makes a seal at this moment")

// isChainOf reports whether a chain has a name that servers give to chains of a day. Names stand in what is signed.
func isChainOf(chain, day string) bool {
	_, err := time.Parse(time.DateOnly, day)
	writer, isOfDay := strings.CutPrefix(chain, day+"/")
	_, wrong := hex.DecodeString(writer)
	return err == nil && isOfDay && wrong == nil && writer != ""
}

// A tableChain is a chain as journal_chains has it.
type tableChain struct {
	ChainEnd
	day    string
	closed int // closed is 0 while the process of the chain may append to it.
}

// chains returns the chains of all parts by their names. A chain that this process writes has at
// least what it has written.
func (e *evidence) chains(ctx context.Context) (map[string]tableChain, error) {
	all := map[string]tableChain{}
	var short []shortChain
	err := e.parts.eachPart(ctx, func(_ string, db *database) error {
		own := db.ownEnds()
		rows, err := db.readChains(ctx)
		for _, c := range rows {
			if isChainOf(c.Chain, c.day) && c.Seq > 0 {
				all[c.Chain] = c
			} else {
				_ = e.report(&faultError{fmt.Sprintf("there is a chain %q of the day %q with %d entries, which no server writes",
					c.Chain, c.day, c.Seq)})
			}
		}
		for chain, seq := range own {
			if all[chain].Seq < seq {
				short = append(short, shortChain{chain,
					fmt.Sprintf("the chain %s has %d entries, and this process has written %d", chain, all[chain].Seq, seq)})
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	short, err = e.withoutAway(ctx, short)
	for _, c := range short {
		_ = e.report(&faultError{c.what})
	}
	return all, err
}

// check reads a chain as far as the table says, and returns a fault if it is not as it was written. With isBare it
// reads only the links of the entries that seals do not name yet.
func (e *evidence) check(ctx context.Context, c tableChain, isBare bool) error {
	after := ChainEnd{Chain: c.Chain}
	var ends []ChainEnd
	if k := e.known.chains[c.Chain]; k != nil {
		ends = k.ends
		if isBare && len(ends) > 0 {
			after, ends = k.end(), nil
		}
	}
	db, err := e.parts.partOf(ctx, c.day)
	if err != nil {
		return err
	}
	follow := e.keys.NewChainCheck(after)
	follow.isErased = func(seq int64) bool { return e.known.isErased(c.Chain, seq) }
	if db != nil {
		err = db.exportChain(ctx, after, c.day, c.Seq, isBare, func(entry ExportedEntry) error {
			if err := follow.Next(&entry); err != nil {
				return err
			}
			if len(ends) > 0 && ends[0].Seq == entry.Seq {
				if !bytes.Equal(ends[0].Link, entry.Link) {
					return &ChainError{c.Chain, entry.Seq, "is another one than a seal says"}
				}
				ends = ends[1:]
			}
			return nil
		})
	}
	wrong, isWrong := errors.AsType[*ChainError](err)
	switch {
	case isWrong:
		return &faultError{fmt.Sprintf("entry %d of the chain %s %s", wrong.Seq, c.Chain, wrong.What)}
	case err != nil:
		return err
	case follow.Seq != c.Seq || !bytes.Equal(follow.Link, c.Link) || len(ends) > 0:
		return &faultError{fmt.Sprintf("the chain %s has %d entries, and they do not end as they should",
			c.Chain, follow.Seq)}
	}
	return nil
}

// whileNobodyErases calls do while nobody erases from a day, and nobody has begun to. Then tombstones and what they are
// about fit each other.
func (e *evidence) whileNobodyErases(ctx context.Context, day string, do func() error) error {
	db, err := e.parts.partOf(ctx, day)
	if err != nil {
		return err
	}
	if db == nil {
		return do()
	}
	if err := db.finishErasures(ctx); err != nil {
		return err
	}
	return db.inTx(ctx, func(tx *sql.Tx) error {
		if err := db.keepErasuresOut(ctx, tx); err != nil {
			return err
		}
		return do()
	})
}

// lost reports each chain until a day that seals name and that the table lacks, or has less of. It returns the names of
// those.
func (e *evidence) lost(ctx context.Context, chains map[string]tableChain, until string) (names []string, err error) {
	var short []shortChain
	for _, name := range sortedKeys(e.known.chains) {
		k := e.known.chains[name]
		if name == AuditChain || !e.known.isHere(name) || k.isBroken || len(k.ends) == 0 || dayOfChain(name) > until {
			continue
		}
		switch has, says := chains[name].Seq, k.end().Seq; {
		case has < says:
			short = append(short,
				shortChain{name, fmt.Sprintf("the chain %s has %d entries, and a seal says %d", name, has, says)})
		case has > says && k.isClosed:
			_ = e.report(&faultError{fmt.Sprintf("the chain %s has %d entries, and it was signed with %d", name, has, says)})
		}
	}
	short, err = e.withoutAway(ctx, short)
	for _, c := range short {
		_ = e.report(&faultError{c.what})
		names = append(names, c.name)
	}
	return names, err
}

// signDays makes a seal for each day before that of now that has chains, and for the last one. A day is signed once.
func (e *evidence) signDays(ctx context.Context, now time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refresh(ctx); err != nil {
		return e.report(err)
	}
	if err := e.finishErasures(ctx); err != nil {
		return err
	}
	yesterday := dayOf(now.AddDate(0, 0, -1))
	if e.known.lastDay >= yesterday {
		return nil
	}
	e.known = newKnown() // once a day all seals are read again, also those that were known
	if err := e.refresh(ctx); err != nil {
		return e.report(err)
	}
	chains, err := e.chains(ctx)
	if err != nil {
		return err
	}
	var days []string
	first := dayAfter(e.known.lastDay)
	for _, c := range chains {
		if k := e.known.chains[c.Chain]; (k == nil || !k.isClosed) && c.day < yesterday && c.day >= e.known.since {
			days = append(days, max(c.day, first))
		}
		if e.known.lastDay == "" && c.day <= yesterday && c.day >= e.known.since && (first == "" || c.day < first) {
			first = c.day
		}
	}
	if first == "" {
		return nil // there are no days yet
	}
	days = append(days, yesterday)
	slices.Sort(days)
	for _, day := range slices.Compact(days) {
		if err := e.signDay(ctx, first, day, now); errors.Is(err, errOtherSeal) {
			return nil // the next call signs what that node does not
		} else if err != nil {
			return err
		}
		first = dayAfter(day)
	}
	return nil
}

// signDay closes the chains until a day, checks them, and signs those that are as they were written.
func (e *evidence) signDay(ctx context.Context, first, day string, now time.Time) error {
	if err := e.parts.eachPart(ctx, func(_ string, db *database) error { return db.closeChains(ctx, day) }); err != nil {
		return err
	}
	if err := e.refresh(ctx); err != nil { // what was erased meanwhile
		return e.report(err)
	}
	chains, err := e.chains(ctx)
	if err != nil {
		return err
	}
	s := statement{kind: DaySeal, at: now, days: [2]string{first, day}}
	lost, err := e.lost(ctx, chains, day)
	if err != nil {
		return err
	}
	s.broken = slices.DeleteFunc(lost, func(name string) bool { return e.known.chains[name].isClosed })
	for _, name := range sortedKeys(chains) {
		c := chains[name]
		// A chain that began since the others were closed comes with the seal of the next day.
		if k := e.known.chains[name]; k != nil && k.isClosed || c.day > day || !e.known.isKept(name) ||
			slices.Contains(s.broken, name) || c.closed == 0 {
			continue
		}
		err := e.check(ctx, c, false)
		if _, isFault := errors.AsType[*faultError](err); isFault { // an erasure may have come between
			if failed := e.whileNobodyErases(ctx, c.day, func() error {
				failed := e.refresh(ctx)
				if failed == nil {
					err = e.check(ctx, c, false)
				}
				return failed
			}); failed != nil {
				return e.report(failed)
			}
		}
		if _, isFault := errors.AsType[*faultError](err); isFault {
			s.broken = append(s.broken, name)
		} else if err == nil {
			s.chains = append(s.chains, c.ChainEnd)
		}
		if err := e.report(err); err != nil {
			return err
		}
	}
	if err := e.checkRows(ctx, s.chains); err != nil {
		return err
	}
	slices.Sort(s.broken)
	return e.append(ctx, s)
}

// checkRows reports the rows of the days of chains that do not say what the sealed entries say.
func (e *evidence) checkRows(ctx context.Context, chains []ChainEnd) error {
	checked := ""
	for _, c := range chains { // in the order of their days
		day := dayOfChain(c.Chain)
		if day == checked {
			continue
		}
		checked = day
		db, err := e.parts.partOf(ctx, day)
		if err != nil || db == nil {
			return err
		}
		n, err := db.countChangedRows(ctx, day)
		if n > 0 && err == nil {
			n, err = db.countChangedRows(ctx, day) // something may have been written between two looks
		}
		if err != nil {
			return err
		}
		if n > 0 {
			_ = e.report(&faultError{
				fmt.Sprintf("%d rows for searches of the day %s are missing, or do not say what the entries say", n, day)})
		}
	}
	return nil
}

// list returns what does not fit. It waits for nobody: while a seal is made, it returns what was known before.
func (e *evidence) list() []string {
	if e.mu.TryLock() {
		all := slices.Clone(e.faults)
		for _, name := range sortedKeys(e.known.chains) {
			if e.known.chains[name].isBroken && e.known.isKept(name) {
				all = append(all, "the chain "+name+" was changed before its day was signed")
			}
		}
		e.listed.Store(&all)
		e.mu.Unlock()
	}
	if all := e.listed.Load(); all != nil {
		return *all
	}
	return nil
}
