// Package authtest is a world around the engines for the tests of their packages: a store in memory, directory servers
// that are functions, a clock that stands still, and good messages. Begin with [NewWorld].
package authtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// ErrFault is what a store in trouble returns.
var ErrFault = errors.New("store fault")

// A World is an engine among fakes that a test controls: a store in memory, directories that are functions, a clock
// that stands still.
type World struct {
	Nanos     atomic.Int64 // Unix nanoseconds
	Mu        sync.Mutex
	Txns      map[string]store.Txn
	certain   map[string]store.Txn                   // what lazy changes have replaced, as long as it may come back
	Fault     func(op string) (done bool, err error) // of the next write; nil: none
	Sends     map[string]int                         // AReqs that left, by id
	erros     []message.Error                        // posted to directories
	Countries []string                               // for which each of them
	Reply     func(scheme string, areq Object) ([]byte, error)
	Sent      func(areq []byte) // is called with each AReq that leaves; may be nil
	Hits      []ranges.Hit
	Tried     bool
	Unasked   string // the one directory that was not asked yet
	rand      *rand.ChaCha8

	OnStore   func(*session.Engine) // gives the engines of browsers another store; nil: they have that of the world
	Placement check.Placement       // which ids can be stored; nil: all

	Journal func(*session.Engine) // has the journal know of what an engine does; nil: there is none

	Unswept bool // what is expired keeps its id
	Down    bool // nothing can be read or written
}

// NewWorld returns a world in which every card of a range is enrolled, and every AReq answered Y.
func NewWorld() *World {
	w := &World{
		Txns: make(map[string]store.Txn), certain: make(map[string]store.Txn),
		Sends: make(map[string]int), Tried: true, rand: rand.NewChaCha8([32]byte{1}),
	}
	w.Nanos.Store(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano())
	w.Hits = []ranges.Hit{{Scheme: "visa", Info: AllVersions("")}, {Scheme: "mastercard", Info: AllVersions("")}}
	w.Reply = func(_ string, areq Object) ([]byte, error) { return ARes(areq, "Y"), nil }
	return w
}

// AllVersions is a range whose issuer and directory speak all versions.
func AllVersions(method string) *ranges.Info {
	info := &ranges.Info{ACSStart: "2.1.0", ACSEnd: "2.3.1", DSStart: "2.1.0", DSEnd: "2.3.1"}
	for _, v := range message.Versions() {
		info.DSVersions = append(info.DSVersions, v.String())
		info.ACS = append(info.ACS, ranges.ACSVersion{Version: v.String(), MethodURL: method, InfoInd: []string{"01"}})
	}
	return info
}

// NewEngine returns a new engine in the world: a node that has just started, with
// a clock that is off by skew.
func (w *World) NewEngine(skew time.Duration) *session.Engine {
	peers := make([]check.Directory, 0, 2)
	for _, scheme := range []string{"visa", "mastercard"} {
		peers = append(peers, check.Directory{
			Scheme: scheme, Versions: message.Versions(), OperatorID: "op-" + scheme,
			ResultsURL: "https://results.example/" + scheme,
		})
	}
	e := &session.Engine{Engine: &auth.Engine{
		Rows: txn.Rows{
			Store: w, Sealer: plain{}, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.Clock().Add(skew) },
			Timeouts: txn.Timeouts{
				Authentication: 10 * time.Second, Preauth: 80 * time.Second, Challenge: 24 * time.Hour, Result: 300 * time.Second,
				DecoupledResult: 20 * time.Minute, Values: 30 * time.Minute, Browser: 30 * time.Minute,
			},
		},
		Checker: check.Checker{
			Cards: w, IDs: transid.NewKeys(make([]byte, 32)), Placement: w.Placement, Peers: peers, Rand: w.rand,
			Server: check.Server{RefNumber: func(v message.Version) string { return "REF-" + v.String() }, RequestorID: "R", RequestorName: "N"},
		},
		Directories: w,
	}}
	if w.Journal != nil {
		w.Journal(e)
	}
	return e
}

// Clock returns the time of the world.
func (w *World) Clock() time.Time { return time.Unix(0, w.Nanos.Load()).UTC() }

// Pass lets time pass.
func (w *World) Pass(d time.Duration) { w.Nanos.Add(int64(d)) }

// write does a write and the fault that the test wants of it. w.mu is held.
func (w *World) write(op string, t store.Txn) error {
	done, err := true, error(nil)
	switch {
	case w.Down:
		return ErrFault
	case w.Fault != nil:
		done, err = w.Fault(op)
	}
	if done {
		if _, lazy := w.certain[t.ID]; !t.Lazy {
			clear(w.certain)
		} else if !lazy {
			w.certain[t.ID] = w.Txns[t.ID]
		}
		t.Lazy, t.Plain = false, nil
		w.Txns[t.ID] = t
	}
	return err
}

// LoseLazy imitates the end of the store's machine: it undoes lazy changes that came after the last change that was not
// lazy.
func (w *World) LoseLazy() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	maps.Copy(w.Txns, w.certain)
	clear(w.certain)
}

// Create is that of a [txn.Store].
func (w *World) Create(ctx context.Context, t store.Txn) error {
	if ctx.Err() != nil { // as in a store that is far away
		return ctx.Err()
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if was, taken := w.Txns[t.ID]; taken && (w.Unswept || w.Clock().Before(was.Expires)) {
		return store.ErrExists
	}
	t.Version = max(t.Version, 1)
	return w.write("create", t)
}

// Works ends all faults.
func (w *World) Works() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Fault, w.Down = nil, false
}

// Get is that of a [txn.Store].
func (w *World) Get(ctx context.Context, id string) (store.Txn, error) {
	if ctx.Err() != nil {
		return store.Txn{}, ctx.Err()
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.Down {
		return store.Txn{}, ErrFault
	}
	t, ok := w.Txns[id]
	if !ok || !w.Clock().Before(t.Expires) {
		return store.Txn{}, store.ErrNotFound
	}
	return t, nil
}

// Update is that of a [txn.Store].
func (w *World) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	if _, err := w.Get(ctx, was.ID); err != nil {
		return err
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	now := w.Txns[was.ID]
	t := now
	if was.Version != 0 {
		t = was
	}
	if err := change(&t); err != nil {
		return err
	}
	if was.Version != 0 && was.Version != now.Version {
		t = now
		if err := change(&t); err != nil {
			return err
		}
	}
	t.Version = now.Version + 1
	return w.write("update", t)
}

// Lookup is that of [check.Cards]: ranges hold the cards that begin with 4.
func (w *World) Lookup(pan string) []ranges.Hit {
	if pan[0] != '4' {
		return nil
	}
	return append([]ranges.Hit(nil), w.Hits...)
}

// AnyTried is that of [check.Cards].
func (w *World) AnyTried() bool { return w.Tried }

// Pending is that of [check.Cards].
func (w *World) Pending(scheme string) bool {
	return !w.Tried || w.Unasked != "" && (scheme == "" || scheme == w.Unasked)
}

// Enter is that of [auth.Directories].
func (w *World) Enter(string, string) (leave func(), ok bool) { return func() {}, true }

// Send is that of [auth.Directories].
func (w *World) Send(_ context.Context, scheme, _ string, areq []byte, transID string, _ message.Version, _ string) ([]byte, error) {
	var o Object
	if err := json.Unmarshal(areq, &o); err != nil {
		return nil, err
	}
	w.Mu.Lock()
	w.Sends[transID]++
	if w.Sent != nil {
		w.Sent(slices.Clone(areq))
	}
	reply := w.Reply
	w.Mu.Unlock()
	return reply(scheme, o)
}

// Report is that of [auth.Directories].
func (w *World) Report(_ context.Context, _, country string, erro []byte) {
	m, err := message.Parse(erro, message.Limits{})
	if err != nil {
		panic(err)
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.erros, w.Countries = append(w.erros, message.ReadError(m)), append(w.Countries, country)
}

// Reported are the Erros that were posted to directories.
func (w *World) Reported() []message.Error {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return slices.Clone(w.erros)
}

// plain seals nothing, but notices when a record is opened under another name. Two seals of the same data differ.
type plain struct{}

var seals atomic.Int64

func (plain) Seal(id string, data []byte) []byte {
	return append(fmt.Appendf(nil, "%s#%016d", id, seals.Add(1)), data...)
}

func (plain) Open(id string, sealed []byte) ([]byte, error) {
	head := len(id) + 1 + 16
	if len(sealed) < head || string(sealed[:len(id)+1]) != id+"#" {
		return nil, errors.New("sealed for another id")
	}
	return sealed[head:], nil
}

// Digest and IsDigest use no secret key: in a test, no other party makes such digests.
func (plain) Digest(data string) []byte { sum := sha256.Sum256([]byte("key" + data)); return sum[:] }

func (p plain) IsDigest(digest []byte, data string) bool { return bytes.Equal(digest, p.Digest(data)) }

// An Object is a JSON object.
type Object map[string]any

// Text returns a member that is a string, else "".
func (o Object) Text(name string) string { s, _ := o[name].(string); return s }

// JSON returns the text of the object.
func (o Object) JSON() []byte {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return data
}

// Parse reads an object.
func Parse(t testing.TB, data []byte) Object {
	t.Helper()
	var o Object
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatalf("not JSON: %v", err)
	}
	return o
}

var (
	Shop  = &account.Account{Merchant: &account.Merchant{Name: "Shop"}}
	Other = &account.Account{Merchant: &account.Merchant{Name: "Other"}}
)

// PAN is the number of a card that ranges hold.
const PAN = "4000001234567890"

// AReq is a good request of a browser payment.
func AReq(version, id string) Object {
	o := Object{
		"messageType": "AReq", "messageVersion": version, "deviceChannel": "02", "messageCategory": "01",
		"threeDSServerTransID": id, "threeDSCompInd": "U", "acctNumber": PAN,
		"threeDSRequestorAuthenticationInd": "01", "threeDSRequestorURL": "https://shop.example",
		"acquirerBIN": "400000", "acquirerMerchantID": "M1", "mcc": "5411", "merchantCountryCode": "208", "merchantName": "Shop",
		"purchaseAmount": "1099", "purchaseCurrency": "978", "purchaseExponent": "2", "purchaseDate": "20261120120000",
		"browserAcceptHeader": "text/html", "browserIP": "192.0.2.1", "browserJavaEnabled": false, "browserLanguage": "en",
		"browserColorDepth": "24", "browserScreenHeight": "1080", "browserScreenWidth": "1920", "browserTZ": "-60",
		"browserUserAgent": "Mozilla/5.0", "notificationURL": "https://shop.example/done",
	}
	if version != "2.1.0" {
		o["browserJavascriptEnabled"] = true
	}
	return o
}

// Value is an authentication value.
const Value = "AAABBCJZUwAAAAAAUFlTAAAAAAA="

// ARes is a good answer to areq.
func ARes(areq Object, status string) []byte { return AResObject(areq, status).JSON() }

// AResObject is ARes before it is written.
func AResObject(areq Object, status string) Object {
	id := areq.Text("threeDSServerTransID")
	o := Object{
		"messageType": "ARes", "messageVersion": areq["messageVersion"], "threeDSServerTransID": id,
		"acsTransID": "ac5" + id[3:], "dsTransID": "d5d" + id[3:], "acsReferenceNumber": "ACS", "dsReferenceNumber": "DS",
		"transStatus": status,
	}
	switch status {
	case "Y", "A":
		o["eci"], o["authenticationValue"] = "05", Value
	case "N", "U", "R":
		o["transStatusReason"] = "01"
	case "D":
		o["acsDecConInd"] = "Y"
	}
	if status == "C" || status == "D" {
		o["acsChallengeMandated"], o["acsURL"] = "N", "https://acs.example/c"
		if areq.Text("messageVersion") == "2.3.1" {
			o["authenticationMethod"] = []string{"02"}
		} else {
			o["authenticationType"] = "02"
		}
	}
	if status == "D" {
		o["cardholderInfo"] = "Use your phone"
		if areq.Text("messageVersion") == "2.3.1" {
			o["cardholderInfo"] = Object{"text": "Use your phone"}
		} else {
			o["authenticationType"] = "04"
		}
	}
	return o
}

// RReq is a good result of the challenge that began with areq.
func RReq(areq Object, status string, n int) Object {
	first := AResObject(areq, "C")
	o := Object{
		"messageType": "RReq", "messageVersion": areq["messageVersion"], "messageCategory": "01",
		"threeDSServerTransID": areq["threeDSServerTransID"], "acsTransID": first["acsTransID"], "dsTransID": first["dsTransID"],
		"transStatus": status, "interactionCounter": fmt.Sprintf("%02d", n%100),
	}
	if status == "Y" || status == "A" {
		o["eci"], o["authenticationValue"] = "05", Value
	} else {
		o["transStatusReason"] = "01"
	}
	if areq.Text("messageVersion") == "2.3.1" {
		o["authenticationMethod"] = []string{"02"}
	} else {
		o["authenticationType"] = "02"
	}
	return o
}

// Preauth returns a fresh id for the card.
func Preauth(t testing.TB, e *session.Engine, acc *account.Account) string {
	t.Helper()
	return PreauthOf(t, e, acc, PAN)
}

// CodeOf is the code of an Erro; "" if err is nil, "?" if it is something else.
func CodeOf(err error) string {
	if err == nil {
		return ""
	}
	if bad, ok := errors.AsType[message.Error](err); ok {
		return bad.Code.String()
	}
	return "?"
}

// PreauthOf is preauth for any card.
func PreauthOf(t testing.TB, e *session.Engine, acc *account.Account, pan string) string {
	t.Helper()
	crd, _, err := e.Preauth(context.Background(), acc, Object{"acctNumber": pan}.JSON())
	if err != nil {
		t.Fatalf("Preauth: %v", err)
	}
	return Parse(t, crd).Text("threeDSServerTransID")
}

// Told is what an Erro says: its code and its detail.
func Told(err error) string {
	if bad, ok := errors.AsType[message.Error](err); ok {
		return bad.Code.String() + " " + bad.Detail
	}
	return fmt.Sprint(err)
}
