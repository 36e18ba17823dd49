package journal

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// importBatch is how many entries are written at once.
const importBatch = 500

// An Imported says what became of the entries of an export.
type Imported struct {
	Added   int // entries that the store lacked
	Present int // entries that it had, or that were erased there
	LeftOut int // entries of days whose keys were all forgotten; the error says which days these are
}

// Import adds the entries of an export to a store. The signers are those of the exporting journal; keys are those of
// the store. All of the export is verified before the first entry is added, and an export that is damaged, or whose
// cards could not be found here, is a [*LineError]. Entries get a place in the chains of this store; the export remains
// the evidence of where they stood. A second import of the same export adds nothing. The error is a
// [*ForgottenDaysError] if all was added but entries of days whose keys were all forgotten.
//
// An export has the hash of each card, for without it no erasure of a card would reach what was imported. A hash is of
// use under its key alone, so the keys of the store must have all keys of card hashes that the exporting journal has.
func Import(ctx context.Context, st Store, keys *Keys, from io.ReadSeeker,
	signers ...ed25519.PublicKey) (Imported, error) {
	var done Imported
	first := importer{keys: keys}
	if _, err := verifyEach(from, signers, func(l *exportLine) string {
		what := first.read(l)
		first.entries = first.entries[:0]
		return what
	}); err != nil {
		return done, err
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return done, err
	}
	again, lost := importer{keys: keys}, &ForgottenDaysError{}
	var failed error
	flush := func() error {
		if len(again.entries) == 0 {
			return nil
		}
		n, err := st.Write(ctx, again.entries)
		done.Added += n
		if err = lost.add(err); err == nil {
			done.Present += len(again.entries) - n - (lost.Count() - done.LeftOut)
			done.LeftOut = lost.Count()
		}
		again.entries = again.entries[:0]
		return err
	}
	_, err := verifyEach(from, signers, func(l *exportLine) string {
		what := again.read(l)
		if what == "" && len(again.entries) >= importBatch {
			if failed = flush(); failed != nil {
				return "was read, and not written"
			}
		}
		return what
	})
	if failed != nil {
		return done, failed
	}
	if err == nil {
		err = flush()
	}
	return done, cmp.Or(err, lost.orNil())
}

// An importer makes entries of the lines of an export.
type importer struct {
	keys     *Keys
	cardKeys []string // those of the exporting journal
	entries  []Entry
}

// read makes an entry of a line that has one. It returns what keeps the line from being imported, "" if nothing does.
func (i *importer) read(l *exportLine) string {
	switch {
	case l.Type == "header":
		i.cardKeys = l.CardKeys
		return ""
	case l.Type != "record":
		return ""
	case l.Chain == AuditChain:
		return "an entry of the audit trail: only exports of a journal can be imported"
	}
	var e Entry
	if err := json.Unmarshal(l.Record, &e); err != nil || e.Kind == "" || e.Record.ID == "" || e.Record.Created.IsZero() {
		return "record is not an entry of a journal that this release knows"
	}
	for i := range e.Steps {
		e.Steps[i].Personal = nil // no export has any
	}
	if putMessages(e.Steps, l.Messages) != nil {
		return "messages are not those of an entry"
	}
	if dayOf(e.Record.Created) != dayOfChain(l.Chain) {
		return "record is of another day than its chain"
	}
	hash, err := hex.DecodeString(l.Card)
	switch {
	case err != nil || l.Card != "" && len(hash) != hashLen:
		return "card is not a hash of a card in hexadecimal"
	case l.Card == "" && len(i.cardKeys) == 0 && e.Record.Card.Last4 != "":
		return "has a card and no hash of it, so that no erasure would find it: export it again by this release"
	case l.Card != "":
		ours := i.keys.cardKeyNames()
		if n := slices.IndexFunc(i.cardKeys, func(name string) bool { return !slices.Contains(ours, name) }); n >= 0 ||
			len(i.cardKeys) == 0 {
			return fmt.Sprintf("its card is hashed under a key that this journal lacks, so that no erasure would find it: "+
				"add the key to the list \"hash\" in journal-keys.json, behind those that are there (key %d of that list where the export was made)",
				max(n, 0)+1)
		}
		e.CardHash = hash
	}
	i.entries = append(i.entries, e)
	return ""
}

// dayOfChain returns the day in the name of a chain.
func dayOfChain(chain string) string { return chain[:min(len(chain), len("2006-01-02"))] }
