package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/cluster"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// A Node is the server that an API belongs to, as the operations on directories see it. Set its fields before use.
type Node struct {
	// Directories returns the directories of the configuration in use.
	Directories func() []Directory
	// Problems returns what is wrong with the parts of the server, as /readyz reports it.
	Problems func() map[string]string
	// Endings returns when each certificate ends, by the key of the configuration.
	Endings func() map[string]time.Time
	// TroubledEndpoints returns the webhook endpoints that get no deliveries, or to which none succeeds.
	TroubledEndpoints func(ctx context.Context) ([]TroubledEndpoint, error)
	// Members returns the nodes of the store, this one among them.
	Members func(ctx context.Context) ([]cluster.Member, error)
	// Generation returns the card ranges of a scheme that this node uses; nil if it has none.
	Generation func(scheme string) *ranges.Generation
	// HasFile reports whether this node runs by a configuration file. Nil means that it does not.
	HasFile func() bool
	// Configuration returns what this node runs with, and what is in its file. It is called if HasFile returns true.
	Configuration func() *Configuration
}

// A TroubledEndpoint is a webhook endpoint that gets no deliveries, or to which none succeeds.
type TroubledEndpoint struct {
	ID, Merchant string
	IsDisabled   bool
	Failing      time.Time // since when no delivery has succeeded; zero: somebody has disabled it
}

// A Directory is a directory server: how it is configured, and how this node gets on with it.
type Directory struct {
	Scheme       string               `json:"scheme"`
	Key          string               `json:"key"` // of the configuration, such as directories[0]
	AReqURL      string               `json:"areqURL"`
	PReqURL      string               `json:"preqURL"`
	ResultsURL   string               `json:"resultsURL"`
	OperatorID   string               `json:"operatorID,omitzero"`
	RIDs         []string             `json:"rids"` // by which an app's SDK calls it; none if they are not known
	ECI          []scheme.CodeMeaning `json:"eci"`  // what the scheme's values mean
	Colour       string               `json:"colour,omitzero"`
	Versions     []string             `json:"versions"`
	TimeoutMS    int64                `json:"timeoutMs"`
	Proxy        string               `json:"proxy,omitzero"`
	Certificate  *Certificate         `json:"certificate"` // that we show it; null: there is none yet
	Managed      bool                 `json:"managed"`     // the store has that, and no file
	ServerRoots  []Certificate        `json:"serverRoots"` // its own certificate must chain to one of these
	ClientRoots  []Certificate        `json:"clientRoots"` // and when it posts a result to one of these
	ClientNames  []string             `json:"clientNames"` // that certificate must have one of these; empty means any
	Breaker      Breaker              `json:"breaker"`     // of this node
	Problems     map[string]string    `json:"problems"`    // of /readyz, those of this directory
	Ranges       Ranges               `json:"ranges"`
	Hour         *Traffic             `json:"hour"` // of the last hour; null without a journal
	Day          *Traffic             `json:"day"`  // of the last 24 hours; null without a journal
	Refresh      time.Duration        `json:"-"`    // how often card ranges are asked for
	MinRefresh   time.Duration        `json:"-"`    // the least time in between
	certificates []*x509.Certificate  // all roots
}

// SetRoots sets the certificates to which those of the directory server chain.
func (d *Directory) SetRoots(server, client []*x509.Certificate) {
	d.ServerRoots, d.ClientRoots = describeCertificates(server), describeCertificates(client)
	d.certificates = slices.Concat(server, client)
}

// A Certificate is what people want to know of one.
type Certificate struct {
	Subject   string    `json:"subject"`
	Issuer    string    `json:"issuer"`
	Serial    string    `json:"serial"` // hexadecimal
	NotBefore time.Time `json:"notBefore"`
	Expires   time.Time `json:"expires"`
}

// DescribeCertificate returns what people want to know of a certificate.
func DescribeCertificate(cert *x509.Certificate) Certificate {
	return Certificate{cert.Subject.String(), cert.Issuer.String(), cert.SerialNumber.Text(16), cert.NotBefore.UTC(),
		cert.NotAfter.UTC()}
}

func describeCertificates(all []*x509.Certificate) []Certificate {
	described := []Certificate{}
	for _, cert := range all {
		described = append(described, DescribeCertificate(cert))
	}
	return described
}

// DescribePair returns what people want to know of the certificate of a pair; nil if there is none.
func DescribePair(pair *tls.Certificate) *Certificate {
	leaf := pair.Leaf
	if leaf == nil && len(pair.Certificate) > 0 {
		leaf, _ = x509.ParseCertificate(pair.Certificate[0]) // what is in use can be read
	}
	if leaf == nil {
		return nil
	}
	return new(DescribeCertificate(leaf))
}

// The states of a breaker.
const (
	BreakerClosed = "closed"
	BreakerOpen   = "open"
	BreakerOff    = "off"
)

// A Breaker is what keeps AReqs from a directory server that cannot be reached.
type Breaker struct {
	State   string     `json:"state"` // closed, open or off
	Since   *time.Time `json:"since"` // when the first of the latest failures ended; null without any
	Fault   string     `json:"fault,omitzero"`
	Refused int64      `json:"refused"` // since it opened
}

// NewBreaker returns the state of a breaker in an answer.
func NewBreaker(s directory.BreakerState) Breaker {
	b := Breaker{BreakerClosed, ops.TimeOrNull(s.Since), s.Fault, s.Refused}
	switch {
	case s.Disabled:
		b.State = BreakerOff
	case s.Open:
		b.State = BreakerOpen
	}
	return b
}

// Ranges is how things stand with the card ranges of a directory. All nodes share it.
type Ranges struct {
	Generation int64      `json:"generation"` // 0: none
	Serial     string     `json:"serial,omitzero"`
	Ranges     int        `json:"ranges"`
	Version    string     `json:"version,omitzero"` // of the PRes
	Loaded     *time.Time `json:"loaded"`           // when they were loaded or last confirmed; null: never
	AgeSeconds int64      `json:"ageSeconds"`
	IsOld      bool       `json:"old"` // older than they are by the configuration
	Fault      string     `json:"fault,omitzero"`
	FaultAt    *time.Time `json:"faultAt"`
	Asked      *time.Time `json:"asked"`
	Next       *time.Time `json:"next"`
	Held       int64      `json:"held"` // the number of the generation that is held back; 0: none
	HeldRanges int        `json:"heldRanges"`
	Accepted   bool       `json:"accepted"`   // what is held back, and no node has seen it yet
	Refreshing bool       `json:"refreshing"` // somebody has asked for it, and no node has seen it yet
}

// staleAfter is how many refreshes may be missed before card ranges count as old.
const staleAfter = 2

// readRanges returns how things stand with the card ranges of a directory.
func (h *Handler) readRanges(ctx context.Context, d *Directory) (Ranges, error) {
	status, asked, err := directory.ReadRefresh(ctx, h.Keeper, d.Scheme, d.Refresh, d.MinRefresh)
	if err != nil {
		return Ranges{}, err
	}
	r := Ranges{
		Generation: status.Generation, Serial: status.Serial, Ranges: status.Ranges, Version: status.Version,
		Loaded: ops.TimeOrNull(status.Loaded), Fault: status.Fault, FaultAt: ops.TimeOrNull(status.FaultAt),
		Asked: ops.TimeOrNull(status.Asked), Next: ops.TimeOrNull(status.Next), Held: status.Held,
		HeldRanges: status.HeldRanges, Accepted: asked.Accepts(status), Refreshing: asked.Refresh,
	}
	if r.Loaded != nil {
		age := max(h.Now().Sub(status.Loaded), 0)
		r.AgeSeconds, r.IsOld = int64(age/time.Second), age >= min(max(staleAfter*d.Refresh, time.Minute), directory.ErrorAge)
	}
	return r, nil
}

// Traffic is what the journal has of one directory in a time.
type Traffic struct {
	Requests int64       `json:"requests"` // authentications with an AReq
	Success  float64     `json:"success"`  // the share with a usable ARes, from 0 to 1
	MedianMS float64     `json:"medianMs"` // from AReq to ARes; within a tenth
	P95MS    float64     `json:"p95Ms"`
	Hours    []HourCount `json:"hours,omitzero"` // of the last 24 hours alone, oldest first
}

// An HourCount is what the journal has of one directory in an hour.
type HourCount struct {
	Hour     time.Time `json:"hour"`
	Requests int64     `json:"requests"`
	P95MS    float64   `json:"p95Ms"`
}

func newTraffic(sum *journal.Rollup) *Traffic {
	t := &Traffic{Requests: sum.All, MedianMS: sum.Quantile(0.5), P95MS: sum.Quantile(0.95)}
	if sum.All > 0 {
		t.Success = float64(sum.All-sum.Failed) / float64(sum.All)
	}
	return t
}

// hoursOfDay is how many hours the traffic of a day has.
const hoursOfDay = 24

// readTraffic adds to each directory what the journal knows of its traffic. Without a journal it adds nothing.
func (h *Handler) readTraffic(ctx context.Context, all []Directory) error {
	if h.Journal == nil {
		return nil
	}
	now := h.Now()
	q := journal.CountQuery{By: "scheme", From: now.Add(-hoursOfDay * time.Hour), To: now, Hourly: true}
	day, err := h.Journal.Count(ctx, q)
	if err != nil {
		return err
	}
	q.From = now.Add(-time.Hour)
	hour, err := h.Journal.Count(ctx, q)
	if err != nil {
		return err
	}
	for i := range all {
		d := &all[i]
		d.Hour = newTraffic(sumOf(hour, func(r *journal.Rollup) bool { return r.Value == d.Scheme }))
		d.Day = newTraffic(sumOf(day, func(r *journal.Rollup) bool { return r.Value == d.Scheme }))
		first := now.UTC().Truncate(time.Hour).Add(-(hoursOfDay - 1) * time.Hour)
		for n := range hoursOfDay {
			at := first.Add(time.Duration(n) * time.Hour)
			sum := sumOf(day, func(r *journal.Rollup) bool { return r.Value == d.Scheme && r.Hour.Equal(at) })
			d.Day.Hours = append(d.Day.Hours, HourCount{at, sum.All, sum.Quantile(0.95)})
		}
	}
	return nil
}

// sumOf adds up those counts that are wanted.
func sumOf(counts []journal.Rollup, isWanted func(*journal.Rollup) bool) *journal.Rollup {
	sum := journal.NewRollup()
	for i := range counts {
		if isWanted(&counts[i]) {
			sum.Add(&counts[i])
		}
	}
	return sum
}

var errNoNode = refuse(http.StatusNotFound, "There are no directories here.")

// The parts of the server that belong to a directory, by their names in /readyz.
func certificatesOf(scheme string) string { return "directory " + scheme }
func rangesOf(scheme string) string       { return "ranges of " + scheme }
func formerOf(scheme string) string       { return "v1 " + scheme } // of 3-D Secure 1.0.2

// readDirectories returns all directories with how they are.
func (h *Handler) readDirectories(ctx context.Context) ([]Directory, error) {
	if h.Node == nil {
		return nil, errNoNode
	}
	all, problems := h.Node.Directories(), h.Node.Problems()
	for i := range all {
		d := &all[i]
		var err error
		if d.Ranges, err = h.readRanges(ctx, d); err != nil {
			return nil, err
		}
		d.Problems = map[string]string{}
		for _, part := range []string{certificatesOf(d.Scheme), rangesOf(d.Scheme), formerOf(d.Scheme)} {
			if text := problems[part]; text != "" {
				d.Problems[part] = text
			}
		}
	}
	if err := h.readTraffic(ctx, all); err != nil && !errors.Is(err, context.Canceled) {
		h.Log.Error("admin API", "what", "the journal is not read for directories", "err", err)
	}
	return all, nil
}

// ListDirectories returns the directory servers with how they are.
func (h *Handler) ListDirectories(ctx context.Context, by operator.Actor) ([]Directory, error) {
	if err := ops.Find("directory list").Check(&by); err != nil {
		return nil, err
	}
	return h.readDirectories(ctx)
}

// FindDirectory returns the directory of a scheme.
func (h *Handler) FindDirectory(scheme string) (*Directory, error) {
	if h.Node == nil {
		return nil, errNoNode
	}
	all := h.Node.Directories()
	i := slices.IndexFunc(all, func(d Directory) bool { return d.Scheme == scheme })
	if i < 0 {
		return nil, refuse(http.StatusNotFound, "There is no directory of this scheme.")
	}
	return &all[i], nil
}

// Roots returns the CAs whose certificates the directory may have, or may trust.
func (d *Directory) Roots() []*x509.Certificate { return d.certificates }
