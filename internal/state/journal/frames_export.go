package journal

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"
)

// links returns the entries of a frame without their content. Link is the one before the first of them.
func (f *frame) links(link []byte) []ExportedEntry {
	all := make([]ExportedEntry, min(max(f.last-f.first+1, 1), frameLen))
	for i := range all {
		e := &all[i]
		*e = ExportedEntry{Chain: f.chain, Seq: f.first + int64(i), IsBare: true, Link: f.link, MAC: f.mac}
		if len(f.digests) >= (i+1)*sha256.Size {
			e.Digest = f.digests[i*sha256.Size : (i+1)*sha256.Size]
		}
		link = NextLink(link, e.Digest)
		if e.Seq < f.last {
			e.IsInside, e.Link, e.MAC = true, link, nil
		}
	}
	return all
}

// exportChain calls line for each entry of a chain behind an end, until a number. Bare ones have no content.
func (db *database) exportChain(ctx context.Context, after ChainEnd, day string, until int64, isBare bool,
	line func(ExportedEntry) error) error {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return err
	}
	begin, _ := spanOfDay(at)
	part := frameMessages
	if isBare {
		part = bareFrames
	}
	link := after.Link
	if after.Seq == 0 {
		link = firstLink(after.Chain)
	}
	return db.eachFrame(ctx, db, part, func(f *frame) error {
		items, messages, err := db.openForExport(ctx, f, isBare)
		if err != nil {
			return err
		}
		all := f.links(link)
		for i := range all {
			e := &all[i]
			e.IsBare, e.IsDamaged = isBare, !isBare && items == nil
			if items != nil {
				e.IsForgotten, e.Merchant = items[i].isForgotten, items[i].merchant
			}
			if items != nil && !items[i].isErased() {
				e.Salt, e.Content, e.Messages = items[i].salt, items[i].content, messages[i]
				e.CardHash = items[i].card
			}
			if err := line(*e); err != nil {
				return err
			}
		}
		link = f.link
		return nil
	}, `chain = ? AND made = ? AND last > ? AND first <= ?`, after.Chain, begin, after.Seq, until)
}

// openForExport opens a frame and its messages. Items are nil if it is not as it was written.
func (db *database) openForExport(ctx context.Context, f *frame,
	isBare bool) (items []frameItem, messages [][]byte, err error) {
	if isBare {
		return nil, nil, nil
	}
	if items, err = db.openItems(ctx, f, isAny); err == nil {
		messages, err = db.openTexts(ctx, f, "journal_messages", f.messages, items)
	}
	if errors.Is(err, errSealed) {
		return nil, nil, nil
	}
	return items, messages, err
}
