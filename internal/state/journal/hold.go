package journal

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A legal hold stands in a seal, which is signed and has the hash of the seal before. So a hold that somebody removes
// or changes in the database is noticed as any other seal is. Exports have the seals, so what a hold says is encrypted
// under the keys of the journal: an export shows that a hold was set, when and by whom, and not on whom or why.

// A Hold keeps what it holds from erasure and from retention, until it is lifted. It holds the records that fit all of
// Merchant, card and days. A field that is empty fits every record.
type Hold struct {
	Number   int64     `json:"number"` // that of its seal
	Name     string    `json:"name"`
	Merchant string    `json:"merchant,omitempty"`
	HasCard  bool      `json:"card"`           // it is on a card, of which the journal keeps keyed hashes alone
	From     string    `json:"from,omitempty"` // the first day, such as 2026-11-28
	To       string    `json:"to,omitempty"`   // the last day
	Reason   string    `json:"reason"`
	By       string    `json:"by"` // who has set it
	At       time.Time `json:"at"`
	// IsUnreadable says that the hold does not open under the keys of the journal. It holds everything.
	IsUnreadable bool `json:"unreadable,omitempty"`
	// LacksKey says that the keys of card hashes were changed since: it does not hold later payments of its card.
	LacksKey bool `json:"lacksKey,omitempty"`

	Card  string   `json:"-"` // the whole number, for AddHold alone
	cards [][]byte // its keyed hashes
}

// A HeldBack says how many authentications an erasure leaves out for a hold.
type HeldBack struct {
	Hold            string `json:"hold"` // its name
	Authentications int    `json:"authentications"`
}

// Holds are the legal holds of a journal, and what they keep.
type Holds struct {
	Data []Hold `json:"data"` // the oldest first
	// Days are how many days are over their time, and stay for a hold.
	Days int `json:"days"`
	// Waiting are how many erasures have left something out. What they left out goes when its holds are lifted.
	Waiting int `json:"waiting"`
}

// heldDays are days from the first to the last one.
type heldDays [2]string

// holdWords are what a seal of a hold says: one of these.
type holdWords struct {
	hold, left string // a hold, and an erasure that has left something out, encrypted
	lift, done int64  // the number of a hold that is lifted, and of such an erasure that was done

	plain any // what becomes hold or left when the number of the seal is known
}

// write writes the lines of the words.
func (w *holdWords) write(line func(form string, args ...any)) {
	if w.hold != "" {
		line("hold %s", w.hold)
	}
	if w.left != "" {
		line("left %s", w.left)
	}
	if w.lift != 0 {
		line("lift %d", w.lift)
	}
	if w.done != 0 {
		line("done %d", w.done)
	}
}

// addHold notes what a seal says of holds.
func (k *known) addHold(s *statement) {
	if s.hold != "" {
		k.holds[s.n] = s.hold
	}
	if s.left != "" {
		k.left[s.n] = s.left
	}
	delete(k.holds, s.lift)
	delete(k.left, s.done)
}

// A holdText is what a seal says of a hold, before it is encrypted.
type holdText struct {
	Name     string   `json:"name"`
	Merchant string   `json:"merchant,omitempty"`
	Cards    [][]byte `json:"cards,omitempty"`
	Keys     []string `json:"keys,omitempty"` // the names of the keys of Cards
	From     string   `json:"from,omitempty"`
	To       string   `json:"to,omitempty"`
	Reason   string   `json:"reason"`
	By       string   `json:"by"`
	At       int64    `json:"at"` // seconds since 1970
}

// A leftText is an erasure that has left something out, before it is encrypted.
type leftText struct {
	Merchant string   `json:"merchant,omitempty"`
	Cards    [][]byte `json:"cards,omitempty"`
	By       string   `json:"by"`
	Holds    []int64  `json:"holds"` // the holds that have kept something
	Until    int64    `json:"until"` // milliseconds since 1970: what was made later was not asked for
}

// sealWords encrypts what a statement says of holds, for its number.
func (k *Keys) sealWords(s *statement) error {
	var to *string
	switch s.plain.(type) {
	case *holdText:
		to = &s.hold
	case *leftText:
		to = &s.left
	default:
		return nil
	}
	text, err := json.Marshal(s.plain)
	if err != nil {
		return err
	}
	sealed, err := seal(k.wrapping[0], text, holdName(s.n))
	*to = base64.RawURLEncoding.EncodeToString(sealed)
	return err
}

// holdName binds what a seal says of holds to its number.
func holdName(n int64) string { return fmt.Sprintf("hold %d", n) }

// openWords decrypts what the seal of a number says of a hold, and reports whether that succeeded.
func (k *Keys) openWords(n int64, sealed string, to any) bool {
	b, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return false
	}
	for _, key := range k.wrapping {
		if text, err := openSealed(key, b, holdName(n)); err == nil {
			return json.Unmarshal(text, to) == nil
		}
	}
	return false
}

// openHold returns the hold of a seal. One that does not open holds everything.
func (k *Keys) openHold(n int64, sealed string) Hold {
	var t holdText
	if !k.openWords(n, sealed, &t) {
		return Hold{Number: n, Name: fmt.Sprintf("seal-%d", n), IsUnreadable: true}
	}
	return Hold{
		Number: n, Name: t.Name, Merchant: t.Merchant, HasCard: len(t.Cards) > 0, From: t.From, To: t.To, Reason: t.Reason,
		By: t.By, At: time.Unix(t.At, 0).UTC(), cards: t.Cards,
		LacksKey: len(t.Cards) > 0 && !slices.Contains(t.Keys, k.cardKeyNames()[0]),
	}
}

// span returns the time that a hold is about, in milliseconds.
func (h *Hold) span() span {
	s := span{0, endOfTime}
	if at, err := time.Parse(time.DateOnly, h.From); err == nil {
		s.begin = at.UnixMilli()
	}
	if at, err := time.Parse(time.DateOnly, h.To); err == nil {
		s.end = at.UnixMilli() + dayLen
	}
	return s
}

// Words says what a hold holds.
func (h *Hold) Words() string {
	var all []string
	if h.IsUnreadable {
		return "everything: it does not open under the keys of this journal"
	}
	if h.HasCard {
		all = append(all, "a card")
	}
	if h.LacksKey {
		all[0] = "a card (the keys of card hashes were changed since: set it again for later payments)"
	}
	if h.Merchant != "" {
		all = append(all, "merchant "+h.Merchant)
	}
	if h.From != "" {
		all = append(all, "from "+h.From)
	}
	if h.To != "" {
		all = append(all, "to "+h.To)
	}
	return strings.Join(all, ", ")
}

// condition returns the condition of the records that a hold holds. It is true or false for each record.
func (h *Hold) condition() (string, []any) {
	s := h.span()
	all, args := []string{"made >= ?", "made < ?"}, []any{s.begin, s.end}
	if h.Merchant != "" {
		all, args = append(all, "merchant = ?"), append(args, h.Merchant)
	}
	if len(h.cards) > 0 {
		all = append(all, "card IS NOT NULL AND card IN ("+marks(len(h.cards))+")")
		for _, hash := range h.cards {
			args = append(args, hash)
		}
	}
	return strings.Join(all, " AND "), args
}

// unheld returns the condition of the records that no hold holds.
func unheld(holds []Hold) (string, []any) {
	condition, args := "1 = 1", []any(nil)
	for i := range holds {
		one, of := holds[i].condition()
		condition, args = condition+" AND NOT ("+one+")", append(args, of...)
	}
	return condition, args
}

// fits reports whether a hold holds a record with the keyed hash of its card.
func (h *Hold) fits(r *Record, card []byte) bool {
	s, made := h.span(), r.Created.UnixMilli()
	if made < s.begin || made >= s.end || h.Merchant != "" && h.Merchant != r.Merchant {
		return false
	}
	return len(h.cards) == 0 || slices.ContainsFunc(h.cards, func(c []byte) bool { return bytes.Equal(c, card) })
}

// holdOf returns which hold holds a record with the keyed hash of its card, -1 if none does.
func holdOf(holds []Hold, r *Record, card []byte) int {
	return slices.IndexFunc(holds, func(h Hold) bool { return h.fits(r, card) })
}

// holdOfLine returns which hold holds the authentication that a line of an export is about, -1 if none does.
func holdOfLine(holds []Hold, l *exportLine, e *Entry) int {
	card, err := hex.DecodeString(l.Card)
	if err != nil {
		card = nil
	}
	return holdOf(holds, &e.Record, card)
}

// holdsDay reports whether a hold may hold something of a day.
func (h *Hold) holdsDay(day string) bool { return day >= h.From && (h.To == "" || day <= h.To) }

// cardHashes returns the hashes of the card of a query, nil if it has none.
func (q *Query) cardHashes(k *Keys) [][]byte {
	if q.Card != "" {
		return k.CardHashes(q.Card)
	}
	return q.hashes
}

// erasesNothing reports whether a query names neither a card nor a merchant, so that nothing may be erased for it.
func (q *Query) erasesNothing() bool { return q.Card == "" && q.hashes == nil && q.Merchant == "" }

// ofErasure returns the query of what is to be erased.
func (q *Query) ofErasure() Query {
	return Query{Card: q.Card, hashes: q.hashes, Merchant: q.Merchant, To: q.To}
}

// isErased reports whether an erasure of the query removes an entry, of which it is given the record and the hash of
// the card.
func (q *Query) isErased(keys *Keys, r *Record, card []byte) bool {
	cards := q.cardHashes(keys)
	isOfCard := cards == nil || slices.ContainsFunc(cards, func(hash []byte) bool { return bytes.Equal(hash, card) })
	return isOfCard && (q.Merchant == "" || q.Merchant == r.Merchant) && (q.To.IsZero() || r.Created.Before(q.To))
}

// countHeld counts what each hold holds of a query, in the order of the holds. newest says when the newest of these was
// made, in milliseconds.
func (db *database) countHeld(ctx context.Context, q Query, holds []Hold) (counts []int, newest int64, err error) {
	counts = make([]int, len(holds))
	condition, args := db.where(q.ofErasure())
	for i := range holds {
		one, of := holds[i].condition()
		var last int64
		if err := db.QueryRowContext(ctx,
			db.query(`SELECT count(*), COALESCE(max(made), 0) FROM journal_records WHERE `+condition+` AND `+one),
			slices.Concat(args, of)...).Scan(&counts[i], &last); err != nil {
			return nil, 0, err
		}
		newest = max(newest, last)
	}
	return counts, newest, nil
}
