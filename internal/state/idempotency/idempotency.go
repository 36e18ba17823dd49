// Package idempotency ensures that requests with the same Idempotency-Key take effect once, on whichever node they
// arrive. Use [Keeper.Begin] before the work of a request, and [Claim.Finish] or [Claim.Release] after it.
//
// A key belongs to a merchant. It has one row in the store, whose id is a hash of both. The first request claims the
// row, which is atomic, and puts its answer there. The answer and everything about the request are sealed under a key
// derived from the key file, the API key that was presented, and the Idempotency-Key. So database and key file together
// do not open it.
//
// A claim is renewed while its request is in work. If a claim was not renewed for a minute, its node has died, and the
// next request takes the claim over. It is then unknown whether the first request had its effect. Both requests derive
// the ids of what they make from the same secret, see [Claim.Derive], so the second finds what the first has made.
package idempotency

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
)

// claimTime is for how long a claim that is not renewed counts as in progress.
const claimTime = 60 * time.Second

// MaxKey is the length of the longest Idempotency-Key.
const MaxKey = 255

// margin is how long a row stays after its key may be used again, so that a request which uses the key then replaces
// the row.
const margin = time.Hour

var (
	// ErrInProgress says that another request with the key is in work.
	ErrInProgress = errors.New("idempotency: a request with this key is in progress")
	// ErrMismatch says that the key was used for another request, or with another API key of the merchant.
	ErrMismatch = errors.New("idempotency: the key was used for another request")
	// ErrUnreadable says that what is kept for the key cannot be read: most likely the secret that sealed it has left the
	// key file. Whether the request had its effect is unknown, and it is not made again.
	ErrUnreadable = errors.New("idempotency: what is kept for this key cannot be read")
	// errLost says that another request has taken a claim over.
	errLost = errors.New("idempotency: another request has taken the claim over")
)

// The states of a row.
const (
	claimed  store.State = "claimed"
	answered store.State = "answered"
	released store.State = "released" // the answer is not kept, and the key is free
)

// A Store is what the package needs of one, see [store.Store].
type Store interface {
	Create(ctx context.Context, t store.Txn) error
	Get(ctx context.Context, id string) (store.Txn, error)
	Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error
}

// A Keeper keeps answers. Set its fields before use.
type Keeper struct {
	Store  Store
	Sealer record.Sealer
	Now    func() time.Time
	Keep   time.Duration // how long a key stands for one request

	// ClaimTime is for how long a claim that is not renewed counts as in progress. 0 means a minute.
	ClaimTime time.Duration

	// CardHash returns the hash by which [Keeper.Erase] finds what is kept about a card. Nil means that it finds nothing
	// by cards.
	CardHash func(pan string) []byte
}

func (k *Keeper) claimTime() time.Duration { return cmp.Or(k.ClaimTime, claimTime) }

// A Request is what a key stands for.
type Request struct {
	Merchant string
	APIKey   string // as it was presented
	Key      string // the Idempotency-Key
	Method   string
	Path     string
	Body     []byte
}

// An Answer is what a request was answered with.
type Answer struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

// IsKept reports whether answers of a status are kept.
func IsKept(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}
	return status >= 200 && status < 300 || status >= 400 && status < 500
}

// IsKey reports whether text may be an Idempotency-Key: 1 to 255 printable characters of ASCII.
func IsKey(text string) bool {
	return text != "" && len(text) <= MaxKey &&
		!strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// A rowRecord is what a row holds, sealed with the key file.
type rowRecord struct {
	KeyHash []byte    `json:"keyHash"`         // SHA-256 of the API key
	Token   []byte    `json:"token"`           // of the request that has the claim
	Until   time.Time `json:"until"`           // the claim counts as in progress until then
	Ends    time.Time `json:"ends"`            // when the key may be used again
	Inner   []byte    `json:"inner"`           // an innerRecord, sealed with the API key and the Idempotency-Key too
	About   subjects  `json:"about,omitempty"` // what the request and the answer are about
}

// An innerRecord is what only a request with the same keys can read.
type innerRecord struct {
	Fingerprint []byte  `json:"fingerprint"`
	Seed        []byte  `json:"seed"`
	Note        string  `json:"note,omitempty"`
	Answer      *Answer `json:"answer,omitempty"`
}

// A Claim is the right to do the work of a request.
type Claim struct {
	// IsRepeat says that an earlier request with the same key and body may have had its effect, in part or in whole.
	IsRepeat bool

	keeper  *Keeper
	request *Request
	id      string
	keyHash []byte
	token   []byte
	inner   innerRecord
	about   subjects

	mu    sync.Mutex
	timer *time.Timer // nil once the claim has ended
}

// Begin claims the key of a request. It returns the answer instead if the request was answered before, and otherwise
// ErrInProgress, ErrMismatch, ErrUnreadable, or an error of the store.
func (k *Keeper) Begin(ctx context.Context, r Request) (*Claim, *Answer, error) {
	r.APIKey = strings.ToLower(r.APIKey) // capital letters make no other key
	apiKey := sha256.Sum256([]byte(r.APIKey))
	c := &Claim{keeper: k, request: &r, id: rowID(&r), keyHash: apiKey[:], token: make([]byte, 16)}
	rand.Read(c.token)
	c.about.addIDs([]byte(r.Path))
	c.about.addIDs(r.Body)
	c.about.addCards(r.Body, k.CardHash)
	c.inner = innerRecord{Fingerprint: fingerprint(&r), Seed: make([]byte, 32)}
	rand.Read(c.inner.Seed)
	now := k.Now()
	t := store.Txn{ID: c.id, Owner: r.Merchant}
	if err := c.claim(&t, now.Add(k.Keep), now); err != nil {
		return nil, nil, err
	}
	err := k.Store.Create(ctx, t)
	switch {
	case err == nil:
		c.keepAlive()
		return c, nil, nil
	case !errors.Is(err, store.ErrExists):
		return nil, nil, err
	}
	was, err := k.Store.Get(ctx, c.id)
	switch {
	case errors.Is(err, store.ErrNotFound): // it has expired, and is freed within a minute
		return nil, nil, ErrInProgress
	case err != nil:
		return nil, nil, err
	}
	// Most requests with a used key end here, without a write.
	probe := was
	if kept, err := c.takeOver(&probe, k.Now()); err != nil || kept != nil {
		return nil, kept, err
	}
	var kept *Answer
	err = k.Store.Update(ctx, was, func(t *store.Txn) (err error) {
		if kept, err = c.takeOver(t, k.Now()); kept != nil {
			return errLost
		}
		return err
	})
	if kept != nil {
		return nil, kept, nil
	}
	if err != nil {
		return nil, nil, err
	}
	c.keepAlive()
	return c, nil, nil
}

// rowPrefix begins the ids of rows.
const rowPrefix = "idempotency-"

// rowID returns the id of the row of a merchant's key. Neither can be read from it.
func rowID(r *Request) string {
	sum := sha256.Sum256([]byte("idempotency " + strconv.Itoa(len(r.Merchant)) + ":" + r.Merchant + r.Key))
	return rowPrefix + hex.EncodeToString(sum[:])
}

// fingerprint returns a hash of what must be equal in requests with the same key.
func fingerprint(r *Request) []byte {
	sum := sha256.New()
	for _, part := range []string{r.Method, r.Path, string(r.Body)} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return sum.Sum(nil)
}

// takeOver makes the row of another request that of the claim, or returns why not: an answer or an error.
func (c *Claim) takeOver(t *store.Txn, now time.Time) (*Answer, error) {
	c.IsRepeat, c.inner.Note = false, ""
	var was rowRecord
	if err := record.Open(c.keeper.Sealer, t, &was); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if !now.Before(was.Ends) {
		return nil, c.claim(t, now.Add(c.keeper.Keep), now)
	}
	isSameKey := subtle.ConstantTimeCompare(was.KeyHash, c.keyHash) == 1
	var inner innerRecord
	if isSameKey {
		plain, err := c.keeper.Sealer.Open(c.innerName(), was.Inner)
		if err == nil {
			err = json.Unmarshal(plain, &inner)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the answer of %s: %w", ErrUnreadable, t.ID, err)
		}
	}
	isSame := isSameKey && hmac.Equal(inner.Fingerprint, c.inner.Fingerprint)
	switch {
	case t.State == released && !isSame:
		return nil, c.claim(t, now.Add(c.keeper.Keep), now)
	case !isSame:
		return nil, ErrMismatch
	case t.State == answered:
		return inner.Answer, nil
	case t.State == claimed && now.Before(was.Until):
		return nil, ErrInProgress
	}
	c.IsRepeat, c.inner.Seed, c.inner.Note = true, inner.Seed, inner.Note
	return nil, c.claim(t, was.Ends, now)
}

// claim writes the claim into a row.
func (c *Claim) claim(t *store.Txn, ends, now time.Time) error {
	t.State = claimed
	return c.seal(t, ends, now)
}

// seal writes what the claim holds into a row.
func (c *Claim) seal(t *store.Txn, ends, now time.Time) error {
	t.Expires = record.Moment(ends.Add(margin))
	plain, err := json.Marshal(&c.inner)
	if err != nil {
		return err
	}
	return record.Seal(c.keeper.Sealer, t, &rowRecord{
		KeyHash: c.keyHash, Token: c.token, Until: now.Add(c.keeper.claimTime()), Ends: ends,
		Inner: c.keeper.Sealer.Seal(c.innerName(), plain), About: c.about,
	})
}

// innerName is what the inner record is sealed under. The keys are part of it, and so of what its key derives from.
func (c *Claim) innerName() string {
	return strings.Join([]string{"idempotency", c.id, c.request.APIKey, c.request.Key}, "\x00")
}

// Derive returns 32 bytes for a purpose. They are secret, and the same for every request that has the claim.
func (c *Claim) Derive(purpose string) [sha256.Size]byte {
	mac := hmac.New(sha256.New, c.inner.Seed)
	mac.Write([]byte(purpose)) // a hash never fails
	return [sha256.Size]byte(mac.Sum(nil))
}

// Note keeps a text for the requests that take the claim over: it is stored when Note has returned nil.
func (c *Claim) Note(ctx context.Context, text string) error {
	if text == c.inner.Note {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inner.Note = text
	return c.update(ctx, claimed, false)
}

// Noted returns the text of an earlier request that had the claim, "" if there is none.
func (c *Claim) Noted() string { return c.inner.Note }

// Finish keeps the answer of the request, and ends the claim.
func (c *Claim) Finish(ctx context.Context, a *Answer) error {
	c.inner.Answer = a
	c.about.addIDs(a.Body)
	return c.end(ctx, answered)
}

// Release frees the key: the answer is not kept.
func (c *Claim) Release(ctx context.Context) error { return c.end(ctx, released) }

func (c *Claim) end(ctx context.Context, state store.State) error {
	c.mu.Lock()
	c.timer.Stop()
	c.timer = nil
	c.mu.Unlock()
	return c.update(ctx, state, false)
}

// update writes the row of the claim, unless another request has taken it over.
func (c *Claim) update(ctx context.Context, state store.State, isLazy bool) error {
	return c.keeper.Store.Update(ctx, store.Txn{ID: c.id}, func(t *store.Txn) error {
		var was rowRecord
		if err := record.Open(c.keeper.Sealer, t, &was); err != nil {
			return err
		}
		if !hmac.Equal(was.Token, c.token) || t.State != claimed {
			return errLost
		}
		t.State, t.Lazy = state, isLazy
		return c.seal(t, was.Ends, c.keeper.Now())
	})
}

// keepAlive renews the claim until it ends.
func (c *Claim) keepAlive() {
	renewal := c.keeper.claimTime() / 3
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(renewal, func() {
		ctx, cancel := context.WithTimeout(context.Background(), renewal)
		defer cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.timer == nil {
			return
		}
		if err := c.update(ctx, claimed, true); !errors.Is(err, errLost) {
			c.timer.Reset(renewal)
		}
	})
}
