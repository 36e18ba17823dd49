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

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/internal/peers/tunnel"
)

// A V1Peer is the directory server of one scheme for 3-D Secure 1.0.2. Fields that are zero have the default named next
// to them.
type V1Peer struct {
	Scheme string

	// URL is the https address for all messages. A message that cannot be delivered there, or is answered with a status
	// of 5xx, is sent once more: to Fallback, which is https too, or to URL again if there is no Fallback.
	URL, Fallback string

	TLS         *tls.Config   // as in Peer
	Proxy       *tunnel.Proxy // as in Peer
	Timeout     time.Duration // limit of one whole attempt; default 12 s
	DialTimeout time.Duration // limit of making one connection; default 5 s
	MaxInFlight int           // most messages that wait for an answer, half of them VEReqs of one merchant; default 500
	AlwaysTry   bool          // as in Peer, of VEReqs

	Revoked *certs.RevocationPolicy // as in Peer
}

// A V1Client sends messages to the directory servers of 3-D Secure 1.0.2. They are questions, which may be asked twice:
// unlike an AReq, a message is sent again when the connection breaks. Close the client when it is no longer used.
type V1Client struct {
	peers map[string]*v1Peer
	log   *slog.Logger
	hooks Hooks

	// Both are shared with the clients before and after this one, see Next.
	reports   *tasks.Group // posts Errors
	noRetries *atomic.Bool // set by StopRetrying
}

// v1Peer is a V1Peer in use.
type v1Peer struct {
	*peer
	config V1Peer
	urls   [2]string
}

// Longest answers in bytes: to a CRReq, and to any other message.
const (
	maxCRRes = 16 << 20
	maxV1    = 256 << 10
)

const (
	veReq   = "VEReq" // the message that a shopper waits for
	v1Error = "Error"
)

var xmlHeader = http.Header{"Content-Type": {"application/xml; charset=utf-8"}}

// NewV1 returns a client of the peers, or an error with all faults of their configuration.
func NewV1(peers []V1Peer, log *slog.Logger, hooks Hooks) (*V1Client, error) {
	c := &V1Client{log: log, hooks: hooks, reports: new(tasks.Group), noRetries: new(atomic.Bool)}
	if err := c.addPeers(peers, nil); err != nil {
		return nil, err
	}
	for _, p := range c.peers {
		p.breaker.publishState()
	}
	return c, nil
}

// addPeers adds the peers to a new client. It reuses the previous peers whose configuration is unchanged.
func (c *V1Client) addPeers(peers []V1Peer, former map[string]*v1Peer) error {
	c.peers = make(map[string]*v1Peer)
	var faults []error
	for _, given := range peers {
		p, err := former[given.Scheme], error(nil)
		if p == nil || !p.config.equal(given) {
			if p, err = newV1Peer(given); err == nil {
				p.breaker.disabled = given.AlwaysTry
				p.breaker.setNotifications(c.log, p.Scheme, veReq, c.hooks.Opened)
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
		config: given,
		urls:   [2]string{given.URL, cmp.Or(given.Fallback, given.URL)},
	}
	return p, p.initClient(p.urls[:]...)
}

// Exchange posts a message to the scheme's directory server and returns the body of the answer, which it does not
// check. Name is the name of the message, and decides how long the answer may be. Id is the message's id: a connection
// with an answer that does not contain it is not used again.
//
// When the directory server could not be reached for a while, most VEReqs are refused immediately. Those that are sent
// are shared among the merchants. A VEReq is also refused when too many of its merchant are on their way. Merchant is
// "" for other messages. The error is an *Error.
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
	within, ended := c.hooks.beginMessage(ctx, scheme, name, id)
	request := func(ctx context.Context) ([]byte, error) { return p.exchange(ctx, id, msg, limit, c.noRetries) }
	var answer []byte
	var err error
	if name == veReq {
		answer, err = p.sendVEReq(within, merchant, request)
	} else {
		answer, err = request(within)
	}
	c.hooks.reportExchange(scheme, name, start, err)
	ended(err)
	return answer, err
}

// sendVEReq makes a request that a shopper of the merchant waits for.
func (p *v1Peer) sendVEReq(ctx context.Context, merchant string,
	request func(context.Context) ([]byte, error)) ([]byte, error) {
	leave, ok := p.merchants.acquire(merchant)
	if !ok {
		return nil, &Error{Scheme: p.Scheme, Kind: Busy, Text: "Too many requests of this merchant in flight"}
	}
	defer leave()
	return p.sendThroughBreaker(ctx, merchant, request)
}

func (p *v1Peer) exchange(ctx context.Context, id string, msg []byte, limit int64,
	noRetries *atomic.Bool) ([]byte, error) {
	if err := p.acquirePlace(); err != nil {
		return nil, err
	}
	defer p.releasePlace()
	answer, err := p.tryOnce(ctx, p.urls[0], id, msg, limit)
	if canRetry(err) && ctx.Err() == nil && !noRetries.Load() {
		p.reportRetry(ctx, err)
		answer, err = p.tryOnce(ctx, p.urls[1], id, msg, limit)
	}
	return answer, err
}

// canRetry reports whether another attempt may succeed after err. It returns false after a timeout, which has used up
// the time, and after an answer, unless its status was 5xx.
func canRetry(err error) bool {
	bad, ok := errors.AsType[*Error](err)
	return ok && (bad.Kind == Connect || bad.Kind == Proxy || bad.Kind == Broken ||
		bad.Kind == Status && bad.Status >= 500)
}

// tryOnce makes one attempt to post a message and read the answer.
func (p *v1Peer) tryOnce(ctx context.Context, url, id string, msg []byte, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	resp, sent, err := p.postOnce(ctx, url, msg, xmlHeader)
	if err != nil {
		return nil, p.failure(ctx, err, sent)
	}
	if resp.StatusCode != http.StatusOK {
		drain(resp.Body)
		return nil, statusError(p.Scheme, resp.StatusCode)
	}
	return p.readAnswer(ctx, resp, id, limit)
}

// Report posts an Error to the scheme's directory server in the background. The outcome is counted and otherwise
// ignored. The Error is dropped when too many Errors are under way or the client is closed.
func (c *V1Client) Report(ctx context.Context, scheme string, msg []byte) {
	p := c.peers[scheme]
	if p == nil {
		return
	}
	started := c.reports.TryStart(p.reports, func(context.Context) {
		start := time.Now()
		within, ended := c.hooks.beginMessage(context.WithoutCancel(ctx), scheme, v1Error, "")
		_, err := p.tryOnce(within, p.urls[0], "", msg, maxV1)
		c.hooks.reportExchange(scheme, v1Error, start, err)
		ended(err)
	})
	if started {
		return
	}
	c.hooks.reportDropped(scheme, v1Error)
	c.log.WarnContext(ctx, "Error not sent", "scheme", scheme, "err", "too many under way")
}

// StopRetrying makes every Exchange of this client and of those before it return within one Timeout: no message is sent
// a second time from then on. Call it when the process is about to end.
func (c *V1Client) StopRetrying() { c.noRetries.Store(true) }

// Close waits for the Errors under way, at most for the longest Timeout, and closes idle connections. After it Exchange
// must not be called, neither on this client nor on those before it (see Next).
func (c *V1Client) Close() error {
	c.reports.End()
	for _, p := range c.peers {
		p.client.Close()
	}
	return nil
}
