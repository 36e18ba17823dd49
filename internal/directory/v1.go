package directory

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/certs"
	"github.com/openthreeds/threeds/internal/tunnel"
)

// A V1Peer is the directory server of one scheme for 3-D Secure 1.0.2. Fields
// that are zero have the default named beside them.
type V1Peer struct {
	Scheme string

	// URL takes all messages; https. What cannot be delivered there, or is
	// answered with a status of 5xx, is tried once more: at Fallback, https
	// too, or at URL again when there is none.
	URL, Fallback string

	TLS         *tls.Config   // as in Peer
	Proxy       *tunnel.Proxy // as in Peer
	Timeout     time.Duration // of one attempt, all included: 12 s
	DialTimeout time.Duration // of one connection: 5 s
	MaxInFlight int           // messages that wait for an answer: 500, half of them VEReqs of one merchant
	AlwaysTry   bool          // as in Peer, of VEReqs

	Revoked *certs.RevocationPolicy // as in Peer
}

// A V1Client talks to the directory servers of 3-D Secure 1.0.2. What it sends
// are questions, which may be asked twice: unlike an AReq a message is sent
// again when a connection breaks. Close it when it is no longer used.
type V1Client struct {
	peers map[string]*v1Peer
	log   *slog.Logger
	hooks Hooks

	background *background // shared with the clients before and after this one, see Next
}

// v1Peer is a V1Peer at work.
type v1Peer struct {
	*peer
	given V1Peer
	urls  [2]string
}

// Largest answers: of card ranges, and of everything else.
const (
	maxCRRes = 16 << 20
	maxV1    = 256 << 10
)

const (
	veReq   = "VEReq" // the message that shoppers wait for
	v1Error = "Error"
)

var xmlHeader = http.Header{"Content-Type": {"application/xml; charset=utf-8"}}

// NewV1 returns a client of the peers, or all that is wrong with them.
func NewV1(peers []V1Peer, log *slog.Logger, hooks Hooks) (*V1Client, error) {
	c := &V1Client{log: log, hooks: hooks, background: new(background)}
	if err := c.take(peers, nil); err != nil {
		return nil, err
	}
	for _, p := range c.peers {
		p.breaker.begin()
	}
	return c, nil
}

// take makes peers of what is given. Those that are among the former ones, with
// nothing changed, are taken over as they are.
func (c *V1Client) take(peers []V1Peer, former map[string]*v1Peer) error {
	c.peers = make(map[string]*v1Peer)
	var faults []error
	for _, given := range peers {
		p, err := former[given.Scheme], error(nil)
		if p == nil || !p.given.same(given) {
			if p, err = newV1Peer(given); err == nil {
				p.breaker.off = given.AlwaysTry
				p.breaker.announce(c.log, p.Scheme, veReq, c.hooks.Opened)
				p.retried = c.hooks.Retried
			}
		}
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("v1 directory %s: %w", given.Scheme, err))
		case c.peers[given.Scheme] != nil:
			faults = append(faults, fmt.Errorf("v1 directory %s: configured twice", given.Scheme))
		default:
			c.peers[given.Scheme] = p
		}
	}
	return errors.Join(faults...)
}

func newV1Peer(given V1Peer) (*v1Peer, error) {
	if given.Scheme == "" {
		return nil, errors.New("no scheme")
	}
	p := &v1Peer{
		peer: &peer{Peer: Peer{
			Scheme: given.Scheme, TLS: given.TLS, Revoked: given.Revoked, Proxy: given.Proxy,
			Timeout:     cmp.Or(given.Timeout, 12*time.Second),
			DialTimeout: cmp.Or(given.DialTimeout, 5*time.Second),
			MaxInFlight: cmp.Or(given.MaxInFlight, 500),
			MaxDials:    maxDials,
		}},
		given: given,
		urls:  [2]string{given.URL, cmp.Or(given.Fallback, given.URL)},
	}
	return p, p.wire(p.urls[:]...)
}

// Exchange posts a message to the scheme's directory server and returns the
// body of its answer, whatever it says. Name is that of the message, and decides how
// large the answer may be. Id is the message's; a connection that brings an answer
// without it is not used again. When the directory server could not be reached for a
// while, most VEReqs are refused at once; those that are not are shared among the merchants. A VEReq is also refused
// when too many of its merchant are on their way. Merchant is "" for other messages. The error is an *Error.
func (c *V1Client) Exchange(ctx context.Context, scheme, merchant, name, id string, msg []byte) ([]byte, error) {
	p := c.peers[scheme]
	if p == nil {
		return nil, &Error{Scheme: scheme, Kind: Unknown, Text: "No directory server for this scheme"}
	}
	start := time.Now()
	limit := int64(maxV1)
	if name == "CRReq" {
		limit = maxCRRes
	}
	within, ended := c.hooks.begun(ctx, scheme, name, id)
	request := func(ctx context.Context) ([]byte, error) { return p.exchange(ctx, id, msg, limit, &c.background.hasty) }
	var answer []byte
	var err error
	if name == veReq {
		answer, err = p.ask(within, merchant, request)
	} else {
		answer, err = request(within)
	}
	c.hooks.exchanged(scheme, name, start, err)
	ended(err)
	return answer, err
}

// ask makes a request that a shopper of a merchant waits for.
func (p *v1Peer) ask(ctx context.Context, merchant string, request func(context.Context) ([]byte, error)) ([]byte, error) {
	leave, ok := p.merchants.take(merchant)
	if !ok {
		return nil, &Error{Scheme: p.Scheme, Kind: Busy, Text: "Too many requests of this merchant in flight"}
	}
	defer leave()
	return p.spared(ctx, merchant, request)
}

func (p *v1Peer) exchange(ctx context.Context, id string, msg []byte, limit int64, hasty *atomic.Bool) ([]byte, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	answer, err := p.try(ctx, p.urls[0], id, msg, limit)
	if mayHelp(err) && ctx.Err() == nil && !hasty.Load() {
		p.again(ctx, err)
		answer, err = p.try(ctx, p.urls[1], id, msg, limit)
	}
	return answer, err
}

// mayHelp reports whether another attempt may succeed after err. It does not after a
// timeout, which has used the time up, nor when the directory server has answered, unless
// with a status of 5xx.
func mayHelp(err error) bool {
	bad, ok := errors.AsType[*Error](err)
	return ok && (bad.Kind == Connect || bad.Kind == Proxy || bad.Kind == Broken || bad.Kind == Status && bad.Status >= 500)
}

// try makes one attempt.
func (p *v1Peer) try(ctx context.Context, url, id string, msg []byte, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	resp, sent, err := p.attempt(ctx, url, msg, xmlHeader)
	if err != nil {
		return nil, p.failure(ctx, err, sent)
	}
	if resp.StatusCode != http.StatusOK {
		drain(resp.Body)
		return nil, statusError(p.Scheme, resp.StatusCode)
	}
	return p.answer(ctx, resp, id, limit)
}

// Report posts an Error to the scheme's directory server in the background. The
// outcome is counted and otherwise ignored. When too many Errors are under way, or the
// client is closed, the Error is dropped.
func (c *V1Client) Report(ctx context.Context, scheme string, msg []byte) {
	p := c.peers[scheme]
	if p == nil {
		return
	}
	started := c.background.start(p.reports, func() {
		start := time.Now()
		within, ended := c.hooks.begun(context.WithoutCancel(ctx), scheme, v1Error, "")
		_, err := p.try(within, p.urls[0], "", msg, maxV1)
		c.hooks.exchanged(scheme, v1Error, start, err)
		ended(err)
	})
	if started {
		return
	}
	c.hooks.dropped(scheme, v1Error)
	c.log.WarnContext(ctx, "Error not sent", "scheme", scheme, "err", "too many under way")
}

// Hasten says that the process is about to end: from then on neither this client nor
// those before it try anything a second time, so that every Exchange returns within one
// Timeout.
func (c *V1Client) Hasten() { c.background.hasty.Store(true) }

// Close waits for the Errors under way, at most the longest Timeout, and closes
// idle connections. Exchange must not be called from then on, neither on this client
// nor on those before it.
func (c *V1Client) Close() error {
	c.background.end()
	for _, p := range c.peers {
		p.client.Close()
	}
	return nil
}
