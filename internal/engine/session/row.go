package session

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/store"
)

// base64URL is how tokens, tags and bindings are written.
var base64URL = base64.RawURLEncoding

const (
	idLen     = 16
	secretLen = 32 // of a token and of a binding
	tagLen    = sha256.Size
)

// newToken returns a token for an authentication, and the secret in it.
func newToken(id string, random io.Reader) (token string, secret []byte) {
	secret = make([]byte, secretLen)
	if _, err := io.ReadFull(random, secret); err != nil {
		panic(err) // crypto/rand never fails
	}
	return base64URL.EncodeToString(append(idBytes(id), secret...)), secret
}

// idBytes returns the bytes of an id.
func idBytes(id string) []byte {
	b, _ := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	return b
}

// readToken returns what a token says.
func readToken(token string) (id string, secret []byte, ok bool) {
	b, err := base64URL.Strict().DecodeString(token)
	if err != nil || len(b) != idLen+secretLen {
		return "", nil, false
	}
	return idText(b[:idLen]), b[idLen:], true
}

// idText returns an id of its bytes.
func idText(b []byte) string {
	s := hex.EncodeToString(b)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// tokenText and bindingText are what the digests in a row are made of, tagText what a tag is.
func tokenText(id string, secret []byte) string { return "browser token " + id + string(secret) }

func bindingText(id, binding string) string { return "browser binding " + id + binding }

func tagText(id string) string { return "browser tag " + id }

// tagOf returns the tag with which the issuer's pages come back.
func (e *Engine) tagOf(id string) string {
	return base64URL.EncodeToString(append(idBytes(id), e.Sealer.Digest(tagText(id))...))
}

// cardKey returns the cipher for the card of an authentication. Its key is made of the token's
// secret, which rests nowhere.
func cardKey(id string, secret []byte) cipher.AEAD {
	key, err := hkdf.Key(sha256.New, secret, nil, "threeds card until the AReq "+id, secretLen)
	if err != nil {
		panic(err) // the length is good
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// sealCard seals an AReq under the secret of a token. The row around it is sealed under the key file, too.
func sealCard(id string, secret, areq []byte) []byte {
	return cardKey(id, secret).Seal(nil, nil, areq, nil)
}

// A page is an authentication in the hands of a browser.
type page struct {
	id     string
	secret []byte
	row    store.Txn
	rec    *txn.Record
}

// openPage reads the authentication of a token.
func (e *Engine) openPage(ctx context.Context, token string) (*page, error) {
	id, secret, ok := readToken(token)
	if !ok {
		return nil, auth.ErrNoAuthentication
	}
	p, err := e.readPage(ctx, id)
	if err != nil {
		return nil, err
	}
	if !e.Sealer.IsDigest(p.rec.Page.Token, tokenText(id, secret)) {
		return nil, auth.ErrNoAuthentication
	}
	p.secret = secret
	return p, nil
}

// openBoundPage is openPage for the browser that has begun the authentication. For any other browser the error is that
// of checkBinding.
func (e *Engine) openBoundPage(ctx context.Context, token, binding string) (*page, error) {
	p, err := e.openPage(ctx, token)
	if err != nil {
		return nil, err
	}
	return p, e.checkBinding(p, binding)
}

// openTag reads the authentication of a tag.
func (e *Engine) openTag(ctx context.Context, tag string) (*page, error) {
	b, err := base64URL.Strict().DecodeString(tag)
	if err != nil || len(b) != idLen+tagLen {
		return nil, auth.ErrNoAuthentication
	}
	p, err := e.readPage(ctx, idText(b[:idLen]))
	if err != nil {
		return nil, err
	}
	if !e.Sealer.IsDigest(b[idLen:], tagText(p.id)) {
		return nil, auth.ErrNoAuthentication
	}
	return p, nil
}

// readPage reads the row of an authentication that a browser carries out. Long after its end there is none.
func (e *Engine) readPage(ctx context.Context, id string) (*page, error) {
	row, err := e.Store.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, auth.ErrNoAuthentication
	}
	if err != nil {
		return nil, e.StoreUnreachable(ctx, "authentication not read", err, id)
	}
	if row.State == txn.Leg || row.State == txn.Second || row.State == txn.Operations {
		return nil, auth.ErrNoAuthentication
	}
	rec, err := e.Unseal(&row)
	if err != nil {
		return nil, err
	}
	if rec.Page == nil || e.StatusOf(&row, rec).IsFinal() && e.AreValuesGone(rec) {
		return nil, auth.ErrNoAuthentication
	}
	return &page{id: id, row: row, rec: rec}, nil
}

// isBoundTo reports whether a browser with this binding has begun the authentication.
func (e *Engine) isBoundTo(p *page, binding string) bool {
	return len(p.rec.Page.Binding) > 0 && e.Sealer.IsDigest(p.rec.Page.Binding, bindingText(p.id, binding))
}

// checkBinding returns an error for a browser that has not begun the authentication: ErrOtherBrowser or, where it ended
// before any browser began it, auth.ErrNoAuthentication.
func (e *Engine) checkBinding(p *page, binding string) error {
	switch {
	case e.isBoundTo(p, binding):
		return nil
	case len(p.rec.Page.Binding) == 0 && p.row.State != txn.Waiting:
		return auth.ErrNoAuthentication
	}
	return ErrOtherBrowser
}

// storePage changes what the row of p keeps of its page, and p.
func (e *Engine) storePage(ctx context.Context, p *page, change func(*txn.PageRecord)) error {
	err := e.Store.Update(ctx, p.row, e.OnRecord(func(t *store.Txn, rec *txn.Record) error {
		if rec.Page == nil {
			return store.ErrNotFound
		}
		change(rec.Page)
		if err := e.Seal(t, rec); err != nil {
			return err
		}
		t.Event = nil
		p.row, p.rec = *t, rec
		return nil
	}))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return auth.ErrNoAuthentication
	case err != nil:
		return e.StoreUnreachable(ctx, "step of a browser not stored", err, p.id)
	}
	e.Notify(p.id)
	return nil
}

const (
	erasePage  = 100         // rows that EraseCards reads in one call
	eraseAhead = time.Minute // by how much a row may stay longer than its end and Timeouts.Values
)

// EraseCards takes the cards out of the rows of authentications whose page never came: those rows stay for a while, to
// say that they have expired. Call it every few seconds, with what the previous call returned, at first with the zero
// value. It goes on from there, so that each row is read once.
func (e *Engine) EraseCards(ctx context.Context, rows store.Lister, after store.Txn) (store.Txn, error) {
	until := e.Now().Add(e.Timeouts.Values + eraseAhead)
	if after.Expires.After(until) {
		after = store.Txn{} // a reload has made Values shorter: new rows may expire before
	}
	after.State = txn.Waiting
	for {
		page, err := rows.List(ctx, after, until, erasePage)
		if err != nil {
			return after, err
		}
		for _, t := range page {
			rec, err := e.Unseal(&t)
			switch {
			case err != nil || rec.Page == nil || rec.Page.Card == nil:
			case !e.IsOver(rec):
				return after, nil // it and those behind it are looked at again
			default:
				if err := e.eraseCard(ctx, t); err != nil {
					return after, err
				}
			}
			after.Expires, after.ID = t.Expires, t.ID
		}
		if len(page) < erasePage {
			return after, nil
		}
	}
}

// eraseCard takes the card out of a row.
func (e *Engine) eraseCard(ctx context.Context, t store.Txn) error {
	err := e.Store.Update(ctx, t, e.OnRecord(func(t *store.Txn, rec *txn.Record) error {
		if t.State != txn.Waiting || rec.Page == nil || !e.IsOver(rec) {
			return txn.ErrArrow
		}
		rec.Page.Card, t.Event = nil, nil
		return e.Seal(t, rec)
	}))
	if errors.Is(err, txn.ErrArrow) || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
