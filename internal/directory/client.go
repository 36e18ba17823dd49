package directory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/wire"
	"github.com/openthreeds/threeds/message"
)

// Client talks to all directory servers. Close it when it is no longer used.
type Client struct {
	// LeaseTime is how long a node that vanished while it asked for ranges keeps
	// the others from asking; 0: 15 s. Set it before Run.
	LeaseTime time.Duration

	peers      map[string]*peer
	order      []*peer
	refreshers []*refresher // one of each, in order
	cards      *ranges.Schemes
	keeper     Keeper
	node       string
	log        *slog.Logger
	hooks      Hooks

	background *background // shared with the clients before and after this one, see Next
}

// New returns a client of the peers, or all that is wrong with them. Run puts
// their ranges into cards and keeps them in keeper, with when a directory server was
// asked last. Nothing is sent before Send, Report or Run.
func New(peers []Peer, cards *ranges.Schemes, keeper Keeper, log *slog.Logger, hooks Hooks) (*Client, error) {
	c := &Client{cards: cards, keeper: keeper, node: newNode(), log: log, hooks: hooks, background: new(background)}
	if err := c.take(peers, nil); err != nil {
		return nil, err
	}
	for _, p := range c.order {
		p.breaker.begin()
	}
	return c, nil
}

// take makes peers of what is given. Those that a former client has, with
// nothing changed, are taken over as they are.
func (c *Client) take(peers []Peer, former *Client) error {
	c.peers = make(map[string]*peer)
	var faults []error
	for _, given := range peers {
		p, r, err := c.one(given, former)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("directory %s: %w", given.Scheme, err))
		case c.peers[p.Scheme] != nil:
			faults = append(faults, fmt.Errorf("directory %s: configured twice", p.Scheme))
		default:
			c.peers[p.Scheme] = p
			c.order = append(c.order, p)
			c.refreshers = append(c.refreshers, r)
		}
	}
	return errors.Join(faults...)
}

// one makes one peer, with who keeps its card ranges fresh.
func (c *Client) one(given Peer, former *Client) (*peer, *refresher, error) {
	var before *refresher
	if former != nil {
		i := slices.IndexFunc(former.order, func(p *peer) bool { return p.Scheme == given.Scheme })
		if i >= 0 && former.order[i].given.same(given) {
			return former.order[i], former.refreshers[i], nil
		}
		if i >= 0 {
			before = former.refreshers[i]
		}
	}
	p, err := newPeer(given)
	if err != nil {
		return nil, nil, err
	}
	p.clock.log = c.log.With("scheme", p.Scheme)
	p.breaker.announce(c.log, p.Scheme, message.AReq.String(), c.hooks.Opened)
	p.retried = c.hooks.Retried
	p.reach.listed = func(addr string) (string, bool) { return c.listed(p, addr) }
	r := newRefresher(c, p)
	if r.former = before; before != nil {
		r.news = before.news
	}
	r.resumed.Store(before != nil)
	return p, r, nil
}

// Enter takes one of the MaxPerMerchant places that the AReqs of a merchant have on their way to the scheme's directory
// server. It returns the function that gives the place back; to call that again does nothing. Not ok means that the
// merchant has no place left: the AReq should not be sent.
func (c *Client) Enter(scheme, merchant string) (leave func(), ok bool) {
	p := c.peers[scheme]
	if p == nil {
		return func() {}, true // Send says so
	}
	return p.merchants.take(merchant)
}

// Send posts an AReq of a merchant to the scheme's directory server and returns the body of
// its answer, whatever it says. It takes at most the peer's Timeout, and less
// if ctx ends before. The request leaves at most once. Country is that of the
// card's issuer, numeric by ISO 3166-1, "" if it is not known: the directory server may
// have an address for it. When the directory server could not be reached for a while,
// most requests are refused at once; those that are not are shared among the merchants. The error is an *Error.
func (c *Client) Send(ctx context.Context, scheme, merchant string, areq []byte, transID string, v message.Version, country string) ([]byte, error) {
	p := c.peers[scheme]
	if p == nil {
		return nil, &Error{Scheme: scheme, Kind: Unknown, Text: "No directory server for this scheme"}
	}
	start := time.Now()
	within, ended := c.hooks.begun(ctx, scheme, message.AReq.String(), transID)
	answer, err := p.spared(within, merchant, func(ctx context.Context) ([]byte, error) {
		return p.send(ctx, c.addresses(p, country), areq, transID, v)
	})
	c.hooks.exchanged(scheme, message.AReq.String(), start, err)
	ended(err)
	return answer, err
}

// addresses are where AReqs of a peer may go, best first: what its PRes gave for
// the issuer's country, what is configured, what its PRes gave for all (PR-23,
// PR-24).
func (c *Client) addresses(p *peer, country string) []string {
	urls := []string{p.AReqURL}
	g := c.cards.Generation(p.Scheme)
	if g == nil || p.foreign(g) {
		return urls
	}
	for _, u := range g.DSURLs {
		if _, _, err := addressOf(u.URL); err != nil {
			continue // no PRes is refused for it, but no attempt is wasted on it either
		}
		switch u.Country {
		case "":
			urls = append(urls, u.URL)
		case country:
			urls = slices.Insert(urls, slices.Index(urls, p.AReqURL), u.URL)
		}
	}
	return urls
}

// listed says whether a peer gave an address of its own in the PRes in use, and
// returns its host name.
func (c *Client) listed(p *peer, addr string) (host string, ok bool) {
	g := c.cards.Generation(p.Scheme)
	if g == nil || p.foreign(g) {
		return "", false
	}
	for _, u := range g.DSURLs {
		if host, port, err := addressOf(u.URL); err == nil && net.JoinHostPort(host, port) == addr {
			return host, true
		}
	}
	return "", false
}

// enter takes one of the peer's MaxInFlight places, which leave gives back.
func (p *peer) enter() error {
	select {
	case p.inFlight <- struct{}{}:
		return nil
	default:
		return &Error{Scheme: p.Scheme, Kind: Busy, Text: "Too many requests in flight"}
	}
}

func (p *peer) leave() { <-p.inFlight }

func (p *peer) send(ctx context.Context, urls []string, areq []byte, transID string, v message.Version) ([]byte, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	resp, err := p.post(ctx, urls, areq, requestID(v, transID), 2)
	if err != nil {
		return nil, err
	}
	return p.answer(ctx, resp, transID, maxARes)
}

// answer reads an answer of at most limit bytes and closes it. If the request's id is
// not in it, the connection is not used again: it may be the answer to an earlier request.
func (p *peer) answer(ctx context.Context, resp *http.Response, id string, limit int64) ([]byte, error) {
	defer resp.Body.Close()
	answer, err := p.read(ctx, resp.Body, resp.ContentLength, limit)
	if err == nil && !names(answer, id) {
		wire.Distrust(resp)
	}
	return answer, err
}

// names reports whether an answer has the id in it somewhere; case does not count.
func names(answer []byte, id string) bool {
	return bytes.Contains(answer, []byte(id)) || bytes.Contains(bytes.ToLower(answer), []byte(strings.ToLower(id)))
}

// post sends one request and returns an answer of status 200, or an Erro of any status,
// which says more than the status does. The caller closes its body. When no byte of the
// request can have left it is tried again, to the next of the addresses if there is one,
// until it was tried as often as attempts says.
func (p *peer) post(ctx context.Context, urls []string, body []byte, header http.Header, attempts int) (*http.Response, error) {
	for {
		resp, sent, err := p.attempt(ctx, urls[0], body, header)
		attempts--
		if len(urls) > 1 {
			urls = urls[1:]
		}
		switch {
		case err == nil && resp.StatusCode == http.StatusOK:
			p.clock.compare(resp.Header.Get("Date"))
			return resp, nil
		case err == nil:
			erro := drain(resp.Body)
			if !isErro(erro) {
				return nil, statusError(p.Scheme, resp.StatusCode)
			}
			resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(erro)), int64(len(erro))
			return resp, nil
		case sent || attempts <= 0 || ctx.Err() != nil:
			return nil, p.failure(ctx, err, sent)
		}
		p.again(ctx, p.failure(ctx, err, sent))
	}
}

// again tells that a message that failed is tried again.
func (p *peer) again(ctx context.Context, err error) {
	if p.retried != nil {
		p.retried(ctx, err)
	}
}

// attempt is one attempt of post. Sent reports whether any byte of the request may have
// left.
func (p *peer) attempt(ctx context.Context, url string, body []byte, header http.Header) (resp *http.Response, sent bool, err error) {
	h := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	maps.Copy(h, header)
	return p.client.Post(ctx, url, h, body)
}

// drain reads what is left of an answer that nobody waits for, so that the
// connection can be used again; not for long, and not much. It returns the whole of it,
// or nil if there is more.
func drain(body io.ReadCloser) []byte {
	end := time.AfterFunc(drainTime, func() { body.Close() })
	left, err := io.ReadAll(io.LimitReader(body, maxHeader))
	end.Stop()
	body.Close()
	if err != nil || len(left) == maxHeader {
		return nil
	}
	return left
}

// isErro reports whether an answer is an Erro.
func isErro(answer []byte) bool {
	m, err := message.Parse(answer, message.Limits{})
	if err != nil {
		return false
	}
	kind, known := m.Type()
	return known && kind == message.Erro
}

// read reads an answer of at most limit bytes. Size is what the peer announced,
// or less than 0.
func (p *peer) read(ctx context.Context, r io.Reader, size, limit int64) ([]byte, error) {
	tooLarge := &Error{Scheme: p.Scheme, Kind: TooLarge, Text: "Answer too large"}
	if size > limit {
		return nil, tooLarge
	}
	var body bytes.Buffer
	if size > 0 {
		body.Grow(int(min(size, promised)) + bytes.MinRead)
	}
	n, err := body.ReadFrom(io.LimitReader(r, limit+1))
	// A peer that sees us hang up at the deadline may end its answer properly,
	// and half an answer would look whole.
	err = cmp.Or(err, ctx.Err())
	switch {
	case err != nil:
		return nil, p.failure(ctx, err, true)
	case n > limit:
		return nil, tooLarge
	}
	return body.Bytes(), nil
}

// requestID returns the headers for an AReq or PReq of the version (HT-09).
func requestID(v message.Version, transID string) http.Header {
	h := make(http.Header)
	if v >= message.V231 {
		h.Set("X-Request-ID", transID)
	}
	return h
}

// Report posts an Erro about an AReq's answer to the scheme's directory server in the
// background, at the addresses that Send takes for the country. The outcome is counted,
// and a failure logged. When too many Erros are under way, or the client is closed, the
// Erro is dropped.
func (c *Client) Report(ctx context.Context, scheme, country string, erro []byte) {
	if p := c.peers[scheme]; p != nil {
		c.report(ctx, p, c.addresses(p, country), erro)
	}
}

// report is Report to given addresses, those that the refused answer came from.
func (c *Client) report(ctx context.Context, p *peer, urls []string, erro []byte) {
	if c.background.start(p.reports, func() { c.postErro(ctx, p, urls, erro) }) {
		return
	}
	c.hooks.dropped(p.Scheme, message.Erro.String())
	c.log.WarnContext(ctx, "erro not sent", "scheme", p.Scheme, "err", "too many under way")
}

func (c *Client) postErro(ctx context.Context, p *peer, urls []string, erro []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Timeout)
	defer cancel()
	start := time.Now()
	ctx, ended := c.hooks.begun(ctx, p.Scheme, message.Erro.String(), "")
	resp, err := p.post(ctx, urls, erro, nil, 2)
	if err == nil {
		drain(resp.Body)
	}
	c.hooks.exchanged(p.Scheme, message.Erro.String(), start, err)
	ended(err)
	if err != nil {
		c.log.WarnContext(ctx, "erro not sent", "scheme", p.Scheme, "err", err)
	}
}

// Close waits for the Erros under way, at most the longest Timeout, and closes
// idle connections. Send must not be called from then on, neither on this client nor on
// those before it. Close does not end Run: its context does.
func (c *Client) Close() error {
	c.background.end()
	for _, p := range c.order {
		p.client.Close()
		p.files.CloseIdleConnections()
	}
	return nil
}
