package journal

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/klauspost/compress/s2"
)

// saltLen is the length of the salt of an entry, in bytes.
const saltLen = 16

// addFrame adds the frame of entries of one day, and moves the head of their chain.
func (db *database) addFrame(w *framesToWrite, entries []*Entry, head *chainHead) error {
	made, _ := spanOfDay(entries[0].Record.Created)
	f := frame{made: made, n: db.nextFrame(), first: head.seq + 1}
	f.chain, f.digests = db.chainName(f.day()), make([]byte, 0, len(entries)*sha256.Size)
	day := db.keyOf(f.day())
	items, messages, personal := db.items[:0], db.messages[:0], db.personal[:0]
	hasMessages, hasPersonal := false, false
	for i, e := range entries {
		bare, kept, err := splitMessages(e, db.steps)
		if err != nil {
			return err
		}
		content, err := appendContent(db.content[:0], &bare)
		if err != nil {
			return err
		}
		db.steps, db.content = bare.Steps, content // the next entry takes their room
		aead, err := day.aead(e.Record.ID)
		if err != nil {
			return err
		}
		item := frameItem{
			id: e.Record.ID, kind: string(e.Kind), merchant: e.Record.Merchant, card: e.CardHash, billed: billedOf(e),
			salt: make([]byte, saltLen), content: content,
		}
		rand.Read(item.salt)
		item.sealed = db.sealText(aead, f.entryName(i, ""), item.salt, content)
		digest := DigestOf(item.salt, content)
		head.seq, head.link = head.seq+1, NextLink(head.link, digest)
		f.digests = append(f.digests, digest...)
		items = item.append(items)
		text := db.text[:0]
		if len(kept) > 0 {
			hasMessages, text = true, appendMessages(text, kept)
			db.text = text
		}
		messages = db.appendSealed(messages, aead, f.entryName(i, "journal_messages"), text)
		if text, err = personalOf(e); err != nil {
			return err
		}
		hasPersonal = hasPersonal || text != nil
		personal = db.appendSealed(personal, aead, f.entryName(i, "journal_personal"), text)
		w.places = append(w.places, []any{e.Record.Created.UnixMilli(), item.id, item.kind, f.n, int64(i), int64(0)})
	}
	db.items, db.messages, db.personal = items, messages, personal
	f.last, f.link = head.seq, head.link
	f.mac = db.ours.LinkMAC(f.chain, f.last, f.link)
	return db.addSealed(w, &f, day, items, ifSet(hasMessages, messages), ifSet(hasPersonal, personal))
}

// ifSet returns text, or nil if it is not wanted.
func ifSet(isWanted bool, text []byte) []byte {
	if !isWanted {
		return nil
	}
	return text
}

// entryName is what an entry of a frame is sealed under, or what a table has beside it.
func (f *frame) entryName(i int, table string) string {
	return "entry " + f.chain + " " + strconv.FormatInt(f.first+int64(i), 10) + table
}

// sealText compresses a text, and seals it with something before it that is not compressed.
func (db *database) sealText(aead cipher.AEAD, name string, before, text []byte) []byte {
	db.plain = packText(append(db.plain[:0], before...), text)
	sealed := make([]byte, aead.NonceSize(), aead.NonceSize()+len(db.plain)+aead.Overhead())
	rand.Read(sealed)
	return aead.Seal(sealed, sealed, db.plain, []byte(name))
}

// appendSealed appends what sealText makes of a text. One that is empty stays so.
func (db *database) appendSealed(to []byte, aead cipher.AEAD, name string, text []byte) []byte {
	if len(text) == 0 {
		return appendText(to, "")
	}
	return appendText(to, db.sealText(aead, name, nil, text))
}

// openText opens what sealText has made. Before is how many bytes stand before the text.
func (d *dayKey) openText(id, name string, sealed []byte, before int) (head, text []byte, err error) {
	aead, err := d.aead(id)
	if err != nil {
		return nil, nil, err
	}
	n := aead.NonceSize()
	if len(sealed) < n {
		return nil, nil, errSealed
	}
	plain, err := aead.Open(nil, sealed[:n], sealed[n:], []byte(name))
	if err != nil || len(plain) < before {
		return nil, nil, errSealed
	}
	text, err = unpackText(plain[before:])
	return plain[:before:before], text, err
}

// addSealed seals a frame, and what stands beside it, under the key of its day, and adds their rows.
func (db *database) addSealed(w *framesToWrite, f *frame, day *dayKey, items, messages, personal []byte) (err error) {
	if f.body, err = day.sealPacked(f, "", items, &db.packed); err != nil {
		return err
	}
	w.frames = append(w.frames, f.row())
	for _, beside := range []struct {
		table string
		text  []byte
		rows  *[][]any
	}{{"journal_messages", messages, &w.messages}, {"journal_personal", personal, &w.personal}} {
		if beside.text == nil {
			continue
		}
		body, err := day.sealPacked(f, beside.table, beside.text, &db.packed)
		if err != nil {
			return err
		}
		*beside.rows = append(*beside.rows, []any{f.made, f.n, body})
	}
	return nil
}

// sealPacked compresses what a frame has, or what a table has beside it, and seals it. The buffer may be used again.
// What is sealed already does not get smaller, but names of merchants do.
func (d *dayKey) sealPacked(f *frame, table string, text []byte, buffer *[]byte) ([]byte, error) {
	*buffer = s2.Encode((*buffer)[:cap(*buffer)], text)
	return seal(d.key, *buffer, f.name()+table)
}

// append writes an item.
func (i *frameItem) append(to []byte) []byte {
	to = appendText(appendText(appendText(to, i.id), i.kind), i.merchant)
	to = appendText(appendText(to, i.billed.api), i.billed.channel)
	to = appendText(appendText(to, i.billed.category), i.billed.kind)
	return appendText(appendText(to, i.card), i.sealed)
}

// forgottenMark stands in the place of a sealed text that nobody opens any more, for its key was forgotten. It is
// shorter than any sealed text.
const forgottenMark = "forgotten"

// isMarked reports whether the entry was sealed under a key that was forgotten before the frame was sealed.
func (i *frameItem) isMarked() bool { return string(i.sealed) == forgottenMark }

// hasText reports whether the entry has a sealed text, which may open or not.
func (i *frameItem) hasText() bool { return len(i.sealed) > 0 && !i.isMarked() }

// isErased reports whether the entry has lost its content. It is known for an entry that was opened.
func (i *frameItem) isErased() bool { return len(i.content) == 0 }

// entry returns the entry of an item, without what stands beside it.
func (i *frameItem) entry() (e Entry, err error) {
	err = json.Unmarshal(i.content, &e)
	e.CardHash = i.card
	return e, err
}

// isAny reports of each entry of a frame that it is wanted.
func isAny(int, *frameItem) bool { return true }

// openItems returns the entries of a frame, of which those that are wanted are opened. It returns errSealed for a frame
// or an entry that is not as it was written.
func (db *database) openItems(ctx context.Context, f *frame, isWanted func(int, *frameItem) bool) ([]frameItem, error) {
	_, items, err := db.openFrame(ctx, f, isWanted)
	return items, err
}

// openFrame is openItems that returns the key of the day, too.
func (db *database) openFrame(ctx context.Context, f *frame, isWanted func(int, *frameItem) bool) (*dayKey, []frameItem,
	error) {
	day, err := db.frameKey(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	items, err := day.openItems(f, f.body, isWanted)
	if errors.Is(err, errSealed) {
		now, isOther, failed := db.readKeyAgain(ctx, f.day(), day)
		if failed != nil {
			return nil, nil, failed
		}
		if isOther {
			day = now
			items, err = day.openItems(f, f.body, isWanted)
		}
	}
	return day, items, err
}

// frameKey returns the key of the day of a frame.
func (db *database) frameKey(ctx context.Context, f *frame) (*dayKey, error) {
	if f.last < f.first || f.last-f.first >= frameLen {
		return nil, errSealed
	}
	return db.dayKey(ctx, f.day(), false)
}

// openItems reads the items of a frame, and opens those that are wanted.
func (d *dayKey) openItems(f *frame, body []byte, isWanted func(int, *frameItem) bool) ([]frameItem, error) {
	text, err := openPacked(d.key, f.name(), body)
	if err != nil {
		return nil, err
	}
	n := f.last - f.first + 1
	if n < 1 || n > frameLen || len(f.digests) != int(n)*sha256.Size {
		return nil, errSealed
	}
	all := make([]frameItem, n)
	r := reader{in: text}
	for i := range all {
		item := &all[i]
		item.id, item.kind, item.merchant = r.text(), r.text(), r.text()
		item.billed = billedItem{r.text(), r.text(), r.text(), r.text()}
		item.card, item.sealed = r.bytes(), r.bytes()
		if len(item.card) == 0 {
			item.card = nil
		}
	}
	if r.isDamaged || len(r.in) > 0 {
		return nil, errSealed
	}
	for i := range all {
		item := &all[i]
		if len(item.sealed) == 0 || !isWanted(i, item) {
			continue
		}
		if item.isForgotten = item.isMarked(); item.isForgotten {
			continue
		}
		item.salt, item.content, err = d.openText(item.id, f.entryName(i, ""), item.sealed, saltLen)
		if item.isForgotten = errors.Is(err, errForgotten); err != nil && !item.isForgotten {
			return nil, err
		}
	}
	return all, nil
}

// openTexts returns the text that a table has beside each entry of a frame; all are nil if body is. Those of erased
// entries are nil, too, and so are those of entries that are not wanted.
func (db *database) openTexts(ctx context.Context, f *frame, table string, body []byte, items []frameItem) ([][]byte,
	error) {
	day, err := db.frameKey(ctx, f)
	if err != nil {
		return nil, err
	}
	return day.openTexts(f, table, body, items)
}

// openTexts is openTexts of a database.
func (d *dayKey) openTexts(f *frame, table string, body []byte, items []frameItem) ([][]byte, error) {
	all, err := d.sealedTexts(f, table, body)
	for i := range all {
		if err != nil {
			return nil, err
		}
		if len(all[i]) == 0 || items[i].isErased() {
			all[i] = nil
			continue
		}
		_, all[i], err = d.openText(items[i].id, f.entryName(i, table), all[i], 0)
		if errors.Is(err, errForgotten) { // since its entry was opened
			all[i], err = nil, nil
		}
	}
	return all, err
}

// sealedTexts returns what a table has beside each entry of a frame, as it is sealed. All are nil if body is.
func (d *dayKey) sealedTexts(f *frame, table string, body []byte) ([][]byte, error) {
	all := make([][]byte, f.last-f.first+1)
	if body == nil {
		return all, nil
	}
	text, err := openPacked(d.key, f.name()+table, body)
	if err != nil {
		return nil, err
	}
	r := reader{in: text}
	for i := range all {
		all[i] = r.bytes()
	}
	if r.isDamaged || len(r.in) > 0 {
		return nil, errSealed
	}
	return all, nil
}

// openPacked opens what sealPacked has made.
func openPacked(key []byte, name string, body []byte) ([]byte, error) {
	packed, err := openSealed(key, body, name)
	if err != nil {
		return nil, err
	}
	text, err := s2.Decode(nil, packed)
	if err != nil {
		return nil, errSealed
	}
	return text, nil
}
