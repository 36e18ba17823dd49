package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// subjects are what a request and its answer are about: hashes of the ids of authentications and of hashes of cards,
// one after the other.
type subjects []byte

// subjectLen is the length of one of them, in bytes.
const subjectLen = 8

var (
	idForm   = regexp.MustCompile(`[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}`)
	cardForm = regexp.MustCompile(`[0-9]{13,}`)

	// separatedForm is a card number with something between its digits.
	separatedForm = regexp.MustCompile(`[0-9]([ \t\x{a0}\x{202f}\x{2010}\x{2011}\x{2013}-]*[0-9]){12,18}`)
)

// maxCards is how many numbers of a request are tried as cards. No request has more than one.
const maxCards = 8

func hashSubject(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:subjectLen]
}

// hashID returns the subject of the id of an authentication.
func hashID(id string) []byte { return hashSubject("id " + strings.ToLower(id)) }

// hashCard returns the subject of the hash of a card.
func hashCard(hash []byte) []byte { return hashSubject("card " + string(hash)) }

// addIDs adds the ids that a text has.
func (s *subjects) addIDs(text []byte) {
	for _, id := range idForm.FindAll(text, -1) {
		s.add(hashID(string(id)))
	}
}

// addCards adds the numbers of a request that may be cards.
func (s *subjects) addCards(body []byte, hash func(pan string) []byte) {
	if hash == nil {
		return
	}
	var request struct {
		AcctNumber string `json:"acctNumber"`
	}
	if json.Unmarshal(body, &request) == nil {
		if number := message.PlainCardNumber(request.AcctNumber); cardForm.MatchString(number) { // its digits may be escaped
			s.add(hashCard(hash(number)))
		}
	}
	for _, form := range []*regexp.Regexp{cardForm, separatedForm} {
		for _, number := range form.FindAll(body, maxCards) {
			s.add(hashCard(hash(message.PlainCardNumber(string(number)))))
		}
	}
}

// add adds a subject that is not there yet.
func (s *subjects) add(subject []byte) {
	for other := range slices.Chunk(*s, subjectLen) {
		if string(other) == string(subject) {
			return
		}
	}
	*s = append(*s, subject...)
}

// erasePage is how many rows Erase reads in one call.
const erasePage = 500

// errKept says that a row stays as it is.
var errKept = errors.New("idempotency: not erased")

// Erase removes the answers to a merchant, and the answers about authentications and cards, and says how many. A key
// whose answer was removed may be used again. Cards are hashes that CardHash has made. For merchant "" only ids and
// cards count. Requests in progress stay, and so do rows that this key file does not open.
func (k *Keeper) Erase(ctx context.Context, rows store.Lister, merchant string, ids []string,
	cards [][]byte) (int, error) {
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[string(hashID(id))] = true
	}
	for _, hash := range cards {
		wanted[string(hashCard(hash))] = true
	}
	isWanted := func(t *store.Txn, was *rowRecord) bool {
		if merchant != "" && t.Owner == merchant {
			return true
		}
		for subject := range slices.Chunk(was.About, subjectLen) {
			if wanted[string(subject)] {
				return true
			}
		}
		return false
	}
	total := 0
	for _, state := range []store.State{claimed, answered, released} {
		after := store.Txn{State: state}
		for {
			page, err := rows.List(ctx, after, time.UnixMilli(math.MaxInt64/int64(time.Millisecond)), erasePage)
			if err != nil {
				return total, err
			}
			for i := range page {
				n, err := k.erase(ctx, &page[i], isWanted)
				if total += n; err != nil {
					return total, err
				}
			}
			if len(page) < erasePage {
				break
			}
			after = page[len(page)-1]
			after.State = state
		}
	}
	return total, nil
}

// erase removes what a row holds if it is wanted, and says whether it was.
func (k *Keeper) erase(ctx context.Context, t *store.Txn, isWanted func(*store.Txn, *rowRecord) bool) (int, error) {
	if !strings.HasPrefix(t.ID, rowPrefix) {
		return 0, nil
	}
	err := k.Store.Update(ctx, *t, func(t *store.Txn) error {
		var was rowRecord
		if err := record.Open(k.Sealer, t, &was); err != nil {
			return errKept
		}
		isEmpty := t.State == released && len(was.Inner) == 0
		isInProgress := t.State == claimed && k.Now().Before(was.Until)
		if isEmpty || isInProgress || !isWanted(t, &was) {
			return errKept
		}
		t.State = released
		return record.Seal(k.Sealer, t, &rowRecord{Ends: was.Ends})
	})
	switch {
	case err == nil:
		return 1, nil
	case errors.Is(err, errKept), errors.Is(err, store.ErrNotFound):
		return 0, nil
	}
	return 0, err
}
