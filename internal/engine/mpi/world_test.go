package mpi_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/mpi"
	"github.com/openthreeds/threeds/internal/protocol/v1/v1test"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

const (
	visaPAN   = "4000001234567890"
	masterPAN = "5200001234567890"
)

// shop and other are two merchants.
var (
	shop  = &account.Account{Merchant: &account.Merchant{Name: "Shop"}}
	other = &account.Account{Merchant: &account.Merchant{Name: "Other"}}
)

// issuers are made once: their keys take time.
var issuers = sync.OnceValue(func() map[string]*v1test.Issuer {
	t := new(testing.T)
	end := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) // the first caller may be in a synctest bubble, where it is 2000
	return map[string]*v1test.Issuer{
		"visa":       v1test.NewIssuer(t, v1test.Options{NotAfter: end}),
		"mastercard": v1test.NewIssuer(t, v1test.Options{NotAfter: end}),
		"stranger":   v1test.NewIssuer(t, v1test.Options{NotAfter: end}),
	}
})

// A world is an engine among fakes that a test holds in its hands.
type world struct {
	*mpi.Engine
	t     *testing.T
	store *faultyStore
	log   *bytes.Buffer

	mu         sync.Mutex
	now        time.Time
	asked      []sent                                                                 // messages at directory servers
	reported   []string                                                               // Errors at directory servers
	reply      func(ctx context.Context, scheme, name string, m sent) (string, error) // nil: Y
	references []string                                                               // that were noted
	observed   []string
}

// sent is a message that came to a directory server.
type sent struct {
	Scheme, Name string
	Message      struct {
		ID    string `xml:"id,attr"`
		VEReq struct {
			PAN      string `xml:"pan"`
			Merchant struct {
				AcqBIN string `xml:"acqBIN"`
				MerID  string `xml:"merID"`
			}
		}
		CRReq struct {
			Merchant struct {
				AcqBIN string `xml:"acqBIN"`
			}
			Serial string `xml:"serialNumber"`
		}
	}
}

// faultyStore is a store in memory that fails while err is set: at each operation, or at only one.
type faultyStore struct {
	*storetest.Memory
	mu   sync.Mutex
	err  error
	at   int      // the operation, counted from 1; 0: each
	done int      // operations since that was set
	all  [][]byte // what was written
}

func (s *faultyStore) fails(err error) { s.failsAt(0, err) }

func (s *faultyStore) failsAt(operation int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.at, s.done = err, operation, 0
}

// steps is how many operations there were since it was said where to fail.
func (s *faultyStore) steps() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

func (s *faultyStore) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done++; s.at != 0 && s.at != s.done {
		return nil
	}
	return s.err
}

func (s *faultyStore) Create(ctx context.Context, t store.Txn) error {
	if err := s.fault(); err != nil {
		return err
	}
	s.mu.Lock()
	s.all = append(s.all, []byte(t.ID), bytes.Clone(t.Data))
	s.mu.Unlock()
	return s.Memory.Create(ctx, t)
}

func (s *faultyStore) Get(ctx context.Context, id string) (store.Txn, error) {
	if err := s.fault(); err != nil {
		return store.Txn{}, err
	}
	return s.Memory.Get(ctx, id)
}

func (s *faultyStore) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	if err := s.fault(); err != nil {
		return err
	}
	return s.Memory.Update(ctx, was, change)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ring, err := keyring.LoadOrCreate(filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, log: new(bytes.Buffer), now: time.Now().Truncate(time.Hour).Add(30*time.Minute + 123*time.Millisecond)}
	w.store = &faultyStore{Memory: storetest.NewMemory(w.clock)}
	w.Engine = &mpi.Engine{
		Client: w, Store: w.store, Sealer: ring, Now: w.clock, Recorder: w,
		Log: slog.New(slog.NewTextHandler(&locked{w: w.log}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, scheme := range []string{"visa", "mastercard"} {
		root, err := xmldsig.NewRoot(issuers()[scheme].Root())
		if err != nil {
			t.Fatal(err)
		}
		w.Directories = append(w.Directories, mpi.Directory{
			Scheme: scheme, Policy: func() xmldsig.Policy { return xmldsig.Policy{Name: scheme, Roots: []*xmldsig.Root{root}} },
		})
	}
	return w
}

// locked is a log that several goroutines write.
type locked struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// Note implements [mpi.Recorder]: of each operation its name, scheme and outcome count,
// which come in this order.
func (w *world) Note(_ context.Context, name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch name {
	case "operation":
		w.observed = append(w.observed, value)
	case "reference":
		w.references = append(w.references, value)
	case "scheme", "outcome":
		w.observed[len(w.observed)-1] += " " + value
	}
}

// NoteDirectory implements [mpi.Recorder].
func (w *world) NoteDirectory(context.Context, time.Duration) {}

// NoteStep implements [mpi.Recorder].
func (w *world) NoteStep(context.Context, string, time.Time, []byte, string) {}

// Exchange is the directory servers.
func (w *world) Exchange(ctx context.Context, scheme, _, name, _ string, msg []byte) ([]byte, error) {
	m := sent{Scheme: scheme, Name: name}
	if err := xml.Unmarshal(msg, &m); err != nil {
		w.t.Errorf("%s: %v", name, err)
	}
	w.mu.Lock()
	w.asked = append(w.asked, m)
	reply := w.reply
	w.mu.Unlock()
	if reply == nil {
		return []byte(veres(m.Message.ID, "Y")), nil
	}
	body, err := reply(ctx, scheme, name, m)
	return []byte(body), err
}

func (w *world) Report(_ context.Context, _ string, msg []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reported = append(w.reported, string(msg))
}

// says makes every answer that of f.
func (w *world) says(f func(id string) string) {
	w.reply = func(_ context.Context, _, _ string, m sent) (string, error) { return f(m.Message.ID), nil }
}

func message(id, body string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><ThreeDSecure><Message id="` + html.EscapeString(id) + `">` + body + `</Message></ThreeDSecure>`
}

// veres is a good answer.
func veres(id, enrolled string) string {
	if enrolled != "Y" {
		return message(id, "<VERes><version>1.0.2</version><CH><enrolled>"+enrolled+"</enrolled></CH></VERes>")
	}
	return enrolledAt(id, "acct-1", "https://acs.example/v1?a=1&b=2")
}

func enrolledAt(id, acctID, url string) string {
	return message(id, "<VERes><version>1.0.2</version><CH><enrolled>Y</enrolled><acctID>"+acctID+"</acctID></CH><url>"+
		html.EscapeString(url)+"</url><protocol>ThreeDSecure</protocol></VERes>")
}

func ireq(id, code, detail string) string {
	return message(id, "<VERes><version>1.0.2</version><CH><enrolled>N</enrolled></CH><IReq><iReqCode>"+code+"</iReqCode><iReqDetail>"+
		detail+"</iReqDetail></IReq></VERes>")
}

// purchase is a good request for a card.
func purchase(pan string) mpi.Enrollment {
	e := mpi.Enrollment{Amount: "21601", Currency: "DKK", OrderID: "1234567890"}
	e.Card.Number, e.Card.ExpireMonth, e.Card.ExpireYear = pan, "07", "2031"
	e.Merchant.AcquirerBIN, e.Merchant.ID, e.Merchant.Name = "400551", "M-1001", "Corner <Shop>"
	e.Merchant.Country, e.Merchant.URL = "DK", "https://shop.example/?a&b"
	return e
}

// enroll runs an /enrolled that must give a PAReq.
func (w *world) enroll(acc *account.Account, asked mpi.Enrollment) v1test.PAReq {
	w.t.Helper()
	a := w.Enrolled(w.t.Context(), acc, asked)
	if a.Enrolled != "Y" || a.Error != nil {
		w.t.Fatalf("enrolled: %+v %+v", a, a.Error)
	}
	req, _ := v1test.Decode(w.t, string(a.PAReq))
	return req
}

// accepts checks a PARes that must be good.
func (w *world) accepts(acc *account.Account, pares string) api.Checked {
	w.t.Helper()
	c, err := w.Check(w.t.Context(), acc, pares)
	if err != nil {
		w.t.Fatalf("refused: %v\n%s", err, w.log)
	}
	return c
}

// refuses checks one that must not be.
func (w *world) refuses(acc *account.Account, pares, why string) {
	w.t.Helper()
	w.log.Reset()
	c, err := w.Check(w.t.Context(), acc, pares)
	bad, ok := errors.AsType[*mpi.ParamError](err)
	if !ok || bad.Param != "pares" || bad.Type != mpi.InvalidParam || c != (api.Checked{}) {
		w.t.Errorf("%+v %v, want a refusal", c, err)
	}
	if !strings.Contains(w.log.String(), why) {
		w.t.Errorf("the log does not say %q: %s", why, w.log)
	}
}

// last is the end of a list, or nothing.
func last[T any](list []T) (v T) {
	if len(list) > 0 {
		v = list[len(list)-1]
	}
	return v
}

func sign(scheme string, p v1test.PARes) string { return issuers()[scheme].Sign(p) }

var errDown = fmt.Errorf("database is locked")
