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

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/peers/wire"
	"github.com/openthreeds/threeds/message"
)

// Client talks to all directory servers. Close it when it is no longer used.
type Client struct {
	// LeaseTime is how long the lease of a node that died during a PReq keeps other nodes from sending one. Zero
	// means 15 s. Set it before Run.
	LeaseTime time.Duration

	peers      map[string]*peer
	order      []*peer
	refreshers []*refresher // the refresher of order[i] is refreshers[i]
	cards      *ranges.Schemes
	keeper     Keeper
	node       string
	log        *slog.Logger
	hooks      Hooks

	reports *tasks.Group // posts Erros; shared with the clients before and after this one, see Next
}

// New returns a client of the peers, or an error with all faults of their configuration. Run puts the card ranges of
// the peers into cards, and stores them and their RefreshStatus in keeper. Nothing is sent before Send, Report or Run.
func New(peers []Peer, cards *ranges.Schemes, keeper Keeper, log *slog.Logger, hooks Hooks) (*Client, error) {
	c := &Client{cards: cards, keeper: keeper, node: newNodeID(), log: log, hooks: hooks, reports: new(tasks.Group)}
	if err := c.addPeers(peers, nil); err != nil {
		return nil, err
	}
	for _, p := range c.order {
		p.breaker.publishState()
	}
	return c, nil
}

// addPeers adds the peers to a new client. It reuses the peers of former, which may be nil, whose configuration is
// unchanged.
func (c *Client) addPeers(peers []Peer, former *Client) error {
	c.peers = make(map[string]*peer)
	var faults []error
	for _, given := range peers {
		p, r, err := c.newPeer(given, former)
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

// newPeer returns a peer and the refresher of its card ranges. It reuses those of former when the configuration is
// unchanged.
func (c *Client) newPeer(given Peer, former *Client) (*peer, *refresher, error) {
	var before *refresher
	if former != nil {
		i := slices.IndexFunc(former.order, func(p *peer) bool { return p.Scheme == given.Scheme })
		if i >= 0 && former.order[i].config.equal(given) {
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
	p.breaker.setNotifications(c.log, p.Scheme, message.AReq.String(), c.hooks.Opened)
	p.retried = c.hooks.Retried
	p.dialer.listedHost = func(addr string) (string, bool) { return c.listedHost(p, addr) }
	r := newRefresher(c, p)
	if r.predecessor = before; before != nil {
		r.notifier = before.notifier
	}
	r.resumed.Store(before != nil)
	return p, r, nil
}

// Enter counts one more AReq of a merchant on its way to the scheme's directory server. At most MaxPerMerchant of them
// are allowed: if ok is false there are as many already, and the AReq must not be sent. Call leave when the AReq has
// been answered; further calls of leave do nothing.
func (c *Client) Enter(scheme, merchant string) (leave func(), ok bool) {
	p := c.peers[scheme]
	if p == nil {
		return func() {}, true // Send says so
	}
	return p.merchants.acquire(merchant)
}

// Send posts an AReq of a merchant to the scheme's directory server and returns the body of the answer, which it does
// not check. It ends after the peer's Timeout, or earlier with ctx. The request leaves at most once. Country is that of
// the card's issuer, numeric by ISO 3166-1, or "" if it is not known: the directory server may have an address for it.
//
// When the directory server could not be reached for a while, most requests are refused immediately. Those that are
// sent are shared among the merchants. The error is an *Error.
func (c *Client) Send(ctx context.Context, scheme, merchant string, areq []byte, transID string, v message.Version,
	country string) ([]byte, error) {
	p := c.peers[scheme]
	if p == nil {
		return nil, &Error{Scheme: scheme, Kind: Unknown, Text: "No directory server for this scheme"}
	}
	start := time.Now()
	within, ended := c.hooks.beginMessage(ctx, scheme, message.AReq.String(), transID)
	answer, err := p.sendThroughBreaker(within, merchant, func(ctx context.Context) ([]byte, error) {
		return p.send(ctx, c.addresses(p, country), areq, transID, v)
	})
	c.hooks.reportExchange(scheme, message.AReq.String(), start, err)
	ended(err)
	return answer, err
}

// addresses returns the addresses for an AReq of a peer in the order in which they are tried: the one that its PRes
// gives for the issuer's country, the configured one, and those that its PRes gives for all countries
// (docs/conformance.md, PR-23 and PR-24).
func (c *Client) addresses(p *peer, country string) []string {
	urls := []string{p.AReqURL}
	g := c.cards.Generation(p.Scheme)
	if g == nil || p.isForeign(g) {
		return urls
	}
	for _, u := range g.DSURLs {
		if _, _, err := addressOf(u.URL); err != nil {
			continue // a PRes is not refused for a bad address, but the address is not used
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

// listedHost returns the host name of an address, HOST:PORT, if the PRes in use lists it; else ok is false.
func (c *Client) listedHost(p *peer, addr string) (host string, ok bool) {
	g := c.cards.Generation(p.Scheme)
	if g == nil || p.isForeign(g) {
		return "", false
	}
	for _, u := range g.DSURLs {
		if host, port, err := addressOf(u.URL); err == nil && net.JoinHostPort(host, port) == addr {
			return host, true
		}
	}
	return "", false
}

// acquirePlace takes one of the peer's MaxInFlight places until releasePlace. It fails when all are taken.
func (p *peer) acquirePlace() error {
	select {
	case p.inFlight <- struct{}{}:
		return nil
	default:
		return &Error{Scheme: p.Scheme, Kind: Busy, Text: "Too many requests in flight"}
	}
}

func (p *peer) releasePlace() { <-p.inFlight }

func (p *peer) send(ctx context.Context, urls []string, areq []byte, transID string,
	v message.Version) ([]byte, error) {
	if err := p.acquirePlace(); err != nil {
		return nil, err
	}
	defer p.releasePlace()
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	resp, err := p.post(ctx, urls, areq, requestIDHeader(v, transID), 2)
	if err != nil {
		return nil, err
	}
	return p.readAnswer(ctx, resp, transID, maxARes)
}

// readAnswer reads an answer of at most limit bytes and closes its body. If the answer does not contain the request's
// id it may be that of an earlier request, so the connection is not used again.
func (p *peer) readAnswer(ctx context.Context, resp *http.Response, id string, limit int64) ([]byte, error) {
	defer resp.Body.Close()
	answer, err := p.readLimited(ctx, resp.Body, resp.ContentLength, limit)
	if err == nil && !containsID(answer, id) {
		wire.Distrust(resp)
	}
	return answer, err
}

// containsID reports whether an answer contains the id, in any case.
func containsID(answer []byte, id string) bool {
	return bytes.Contains(answer, []byte(id)) || bytes.Contains(bytes.ToLower(answer), []byte(strings.ToLower(id)))
}

// post sends one request and returns an answer with status 200, or an Erro with any status: an Erro says more than a
// status. The caller closes the body. When no byte of the request can have left, post tries again, with the next
// address if there is one, up to the given number of attempts.
func (p *peer) post(ctx context.Context, urls []string, body []byte, header http.Header,
	attempts int) (*http.Response, error) {
	for {
		resp, sent, err := p.postOnce(ctx, urls[0], body, header)
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
		p.reportRetry(ctx, p.failure(ctx, err, sent))
	}
}

// reportRetry calls the hook of retries; err is why the message is sent again.
func (p *peer) reportRetry(ctx context.Context, err error) {
	if p.retried != nil {
		p.retried(ctx, err)
	}
}

// postOnce makes one attempt. Sent reports whether any byte of the request may have left.
func (p *peer) postOnce(ctx context.Context, url string, body []byte,
	header http.Header) (resp *http.Response, sent bool, err error) {
	h := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	maps.Copy(h, header)
	return p.client.Post(ctx, url, h, body)
}

// drain reads the rest of an answer whose caller is gone, so that the connection can be used again. It reads for at
// most drainTime and less than maxHeader bytes. It returns what it read, or nil if there is more.
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

// readLimited reads an answer of at most limit bytes. Size is its Content-Length, or negative if there is none.
func (p *peer) readLimited(ctx context.Context, r io.Reader, size, limit int64) ([]byte, error) {
	tooLarge := &Error{Scheme: p.Scheme, Kind: TooLarge, Text: "Answer too large"}
	if size > limit {
		return nil, tooLarge
	}
	var body bytes.Buffer
	if size > 0 {
		body.Grow(int(min(size, maxPreallocated)) + bytes.MinRead)
	}
	n, err := body.ReadFrom(io.LimitReader(r, limit+1))
	// When our deadline closes the connection the peer may end its answer properly. Then half an answer would look
	// complete, so the context is checked too.
	err = cmp.Or(err, ctx.Err())
	switch {
	case err != nil:
		return nil, p.failure(ctx, err, true)
	case n > limit:
		return nil, tooLarge
	}
	return body.Bytes(), nil
}

// requestIDHeader returns the header X-Request-ID of an AReq or PReq, which 2.3.1 demands (docs/conformance.md, HT-09).
func requestIDHeader(v message.Version, transID string) http.Header {
	h := make(http.Header)
	if v >= message.V231 {
		h.Set("X-Request-ID", transID)
	}
	return h
}

// Report posts an Erro about the answer to an AReq in the background, to the addresses that Send uses for the country.
// The outcome is counted, and a failure is logged. The Erro is dropped when too many Erros are under way or the client
// is closed.
func (c *Client) Report(ctx context.Context, scheme, country string, erro []byte) {
	if p := c.peers[scheme]; p != nil {
		c.reportTo(ctx, p, c.addresses(p, country), erro)
	}
}

// reportTo posts an Erro to the addresses that the refused answer came from. See Report.
func (c *Client) reportTo(ctx context.Context, p *peer, urls []string, erro []byte) {
	if c.reports.TryStart(p.reports, func(context.Context) { c.postErro(ctx, p, urls, erro) }) {
		return
	}
	c.hooks.reportDropped(p.Scheme, message.Erro.String())
	c.log.WarnContext(ctx, "erro not sent", "scheme", p.Scheme, "err", "too many under way")
}

func (c *Client) postErro(ctx context.Context, p *peer, urls []string, erro []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Timeout)
	defer cancel()
	start := time.Now()
	ctx, ended := c.hooks.beginMessage(ctx, p.Scheme, message.Erro.String(), "")
	resp, err := p.post(ctx, urls, erro, nil, 2)
	if err == nil {
		drain(resp.Body)
	}
	c.hooks.reportExchange(p.Scheme, message.Erro.String(), start, err)
	ended(err)
	if err != nil {
		c.log.WarnContext(ctx, "erro not sent", "scheme", p.Scheme, "err", err)
	}
}

// Close waits for the Erros under way, at most for the longest Timeout, and closes idle connections. After it Send must
// not be called, neither on this client nor on those before it (see Next). Close does not end Run; its context does.
func (c *Client) Close() error {
	c.reports.End()
	for _, p := range c.order {
		p.client.Close()
		p.files.CloseIdleConnections()
	}
	return nil
}
