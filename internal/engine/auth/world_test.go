package auth_test

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
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// A world is an engine among fakes that a test holds in its hands: a store in
// memory, directories that are functions, a clock that stands still.
type world struct {
	now       atomic.Int64 // Unix nanoseconds
	mu        sync.Mutex
	txns      map[string]store.Txn
	certain   map[string]store.Txn                   // what lazy changes have replaced, as long as it may come back
	fault     func(op string) (done bool, err error) // of the next write; nil: none
	sends     map[string]int                         // AReqs that left, by id
	erros     []message.Error                        // posted to directories
	countries []string                               // for which each of them
	reply     func(scheme string, areq object) ([]byte, error)
	sent      func(areq []byte) // is called with each AReq that leaves; may be nil
	hits      []ranges.Hit
	tried     bool
	pending   string // the one directory that was not asked yet
	rand      *rand.ChaCha8

	onStore func(*auth.Engine) // gives the engines of browsers another store; nil: they have that of the world
	journal func(*auth.Engine) // has the journal know of what an engine does; nil: there is none

	unswept bool // what is expired keeps its id
	down    bool // nothing can be read or written
}

func newWorld() *world {
	w := &world{
		txns: make(map[string]store.Txn), certain: make(map[string]store.Txn),
		sends: make(map[string]int), tried: true, rand: rand.NewChaCha8([32]byte{1}),
	}
	w.now.Store(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano())
	w.hits = []ranges.Hit{{Scheme: "visa", Info: allVersions("")}, {Scheme: "mastercard", Info: allVersions("")}}
	w.reply = func(_ string, areq object) ([]byte, error) { return ares(areq, "Y"), nil }
	return w
}

// allVersions is a range whose issuer and directory speak all versions.
func allVersions(method string) *ranges.Info {
	info := &ranges.Info{ACSStart: "2.1.0", ACSEnd: "2.3.1", DSStart: "2.1.0", DSEnd: "2.3.1"}
	for _, v := range message.Versions() {
		info.DSVersions = append(info.DSVersions, v.String())
		info.ACS = append(info.ACS, ranges.ACSVersion{Version: v.String(), MethodURL: method, InfoInd: []string{"01"}})
	}
	return info
}

// engine returns a new engine in the world: a node that has just started, with
// a clock that is off by skew.
func (w *world) engine(skew time.Duration) *auth.Engine {
	peers := make([]check.Directory, 0, 2)
	for _, scheme := range []string{"visa", "mastercard"} {
		peers = append(peers, check.Directory{
			Scheme: scheme, Versions: message.Versions(), OperatorID: "op-" + scheme,
			ResultsURL: "https://results.example/" + scheme,
		})
	}
	e := &auth.Engine{
		Rows: txn.Rows{
			Store: w, Sealer: plain{}, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.clock().Add(skew) },
			Timeouts: txn.Timeouts{Authentication: 10 * time.Second, Preauth: 80 * time.Second, Challenge: 24 * time.Hour, Result: 300 * time.Second, DecoupledResult: 20 * time.Minute, Values: 30 * time.Minute, Browser: 30 * time.Minute},
		},
		Checker: check.Checker{
			Cards: w, IDs: transid.NewKeys(make([]byte, 32)), Peers: peers, Rand: w.rand,
			Server: check.Server{RefNumber: func(v message.Version) string { return "REF-" + v.String() }, RequestorID: "R", RequestorName: "N"},
		},
		Directories: w,
	}
	if w.journal != nil {
		w.journal(e)
	}
	return e
}

func (w *world) clock() time.Time { return time.Unix(0, w.now.Load()).UTC() }

func (w *world) pass(d time.Duration) { w.now.Add(int64(d)) }

// write does a write and the fault that the test wants of it. w.mu is held.
func (w *world) write(op string, t store.Txn) error {
	done, err := true, error(nil)
	switch {
	case w.down:
		return errFault
	case w.fault != nil:
		done, err = w.fault(op)
	}
	if done {
		if _, lazy := w.certain[t.ID]; !t.Lazy {
			clear(w.certain)
		} else if !lazy {
			w.certain[t.ID] = w.txns[t.ID]
		}
		t.Lazy = false
		w.txns[t.ID] = t
	}
	return err
}

// loseLazy ends the machine that the store is on: lazy changes since the last one that
// was not have not happened.
func (w *world) loseLazy() {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.Copy(w.txns, w.certain)
	clear(w.certain)
}

func (w *world) Create(ctx context.Context, t store.Txn) error {
	if ctx.Err() != nil { // as in a store that is far away
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if was, taken := w.txns[t.ID]; taken && (w.unswept || w.clock().Before(was.Expires)) {
		return store.ErrExists
	}
	t.Version = 1
	return w.write("create", t)
}

// works ends all faults.
func (w *world) works() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault, w.down = nil, false
}

func (w *world) Get(ctx context.Context, id string) (store.Txn, error) {
	if ctx.Err() != nil {
		return store.Txn{}, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return store.Txn{}, errFault
	}
	t, ok := w.txns[id]
	if !ok || !w.clock().Before(t.Expires) {
		return store.Txn{}, store.ErrNotFound
	}
	return t, nil
}

func (w *world) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	if _, err := w.Get(ctx, was.ID); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.txns[was.ID]
	if was.Version != 0 && was.Version != t.Version {
		if err := change(&was); err != nil {
			return err
		}
	}
	if err := change(&t); err != nil {
		return err
	}
	t.Version++
	return w.write("update", t)
}

func (w *world) Lookup(pan string) []ranges.Hit {
	if pan[0] != '4' {
		return nil
	}
	return append([]ranges.Hit(nil), w.hits...)
}

func (w *world) AnyTried() bool { return w.tried }

func (w *world) Pending(scheme string) bool {
	return !w.tried || w.pending != "" && (scheme == "" || scheme == w.pending)
}

func (w *world) Enter(string, string) (leave func(), ok bool) { return func() {}, true }

func (w *world) Send(_ context.Context, scheme, _ string, areq []byte, transID string, _ message.Version, _ string) ([]byte, error) {
	var o object
	if err := json.Unmarshal(areq, &o); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.sends[transID]++
	if w.sent != nil {
		w.sent(slices.Clone(areq))
	}
	reply := w.reply
	w.mu.Unlock()
	return reply(scheme, o)
}

func (w *world) Report(_ context.Context, _, country string, erro []byte) {
	m, err := message.Parse(erro, message.Limits{})
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.erros, w.countries = append(w.erros, message.ReadError(m)), append(w.countries, country)
}

// reported are the Erros that were posted to directories.
func (w *world) reported() []message.Error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.erros)
}

// plain seals nothing, but notices when a record is opened under another name. It seals
// nothing alike twice.
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

// Digest and IsDigest are as good as keyed: nobody else makes such digests.
func (plain) Digest(data string) []byte { sum := sha256.Sum256([]byte("key" + data)); return sum[:] }

func (p plain) IsDigest(digest []byte, data string) bool { return bytes.Equal(digest, p.Digest(data)) }

type object map[string]any

func (o object) text(name string) string { s, _ := o[name].(string); return s }

func (o object) json() []byte {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return data
}

func parse(t testing.TB, data []byte) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatalf("not JSON: %v", err)
	}
	return o
}

var (
	shop  = &account.Account{Merchant: &account.Merchant{Name: "Shop"}}
	other = &account.Account{Merchant: &account.Merchant{Name: "Other"}}
)

const pan = "4000001234567890"

// areq is a good request of a browser payment.
func areq(version, id string) object {
	o := object{
		"messageType": "AReq", "messageVersion": version, "deviceChannel": "02", "messageCategory": "01",
		"threeDSServerTransID": id, "threeDSCompInd": "U", "acctNumber": pan,
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

const value = "AAABBCJZUwAAAAAAUFlTAAAAAAA="

// ares is a good answer to areq.
func ares(areq object, status string) []byte { return aresObject(areq, status).json() }

func aresObject(areq object, status string) object {
	id := areq.text("threeDSServerTransID")
	o := object{
		"messageType": "ARes", "messageVersion": areq["messageVersion"], "threeDSServerTransID": id,
		"acsTransID": "ac5" + id[3:], "dsTransID": "d5d" + id[3:], "acsReferenceNumber": "ACS", "dsReferenceNumber": "DS",
		"transStatus": status,
	}
	switch status {
	case "Y", "A":
		o["eci"], o["authenticationValue"] = "05", value
	case "N", "U", "R":
		o["transStatusReason"] = "01"
	case "D":
		o["acsDecConInd"] = "Y"
	}
	if status == "C" || status == "D" {
		o["acsChallengeMandated"], o["acsURL"] = "N", "https://acs.example/c"
		if areq.text("messageVersion") == "2.3.1" {
			o["authenticationMethod"] = []string{"02"}
		} else {
			o["authenticationType"] = "02"
		}
	}
	if status == "D" {
		o["cardholderInfo"] = "Use your phone"
		if areq.text("messageVersion") == "2.3.1" {
			o["cardholderInfo"] = object{"text": "Use your phone"}
		} else {
			o["authenticationType"] = "04"
		}
	}
	return o
}

// rreq is a good result of the challenge that began with areq.
func rreq(areq object, status string, n int) object {
	first := aresObject(areq, "C")
	o := object{
		"messageType": "RReq", "messageVersion": areq["messageVersion"], "messageCategory": "01",
		"threeDSServerTransID": areq["threeDSServerTransID"], "acsTransID": first["acsTransID"], "dsTransID": first["dsTransID"],
		"transStatus": status, "interactionCounter": fmt.Sprintf("%02d", n%100),
	}
	if status == "Y" || status == "A" {
		o["eci"], o["authenticationValue"] = "05", value
	} else {
		o["transStatusReason"] = "01"
	}
	if areq.text("messageVersion") == "2.3.1" {
		o["authenticationMethod"] = []string{"02"}
	} else {
		o["authenticationType"] = "02"
	}
	return o
}

// preauth returns a fresh id for the card.
func preauth(t testing.TB, e *auth.Engine, acc *account.Account) string {
	t.Helper()
	return preauthOf(t, e, acc, pan)
}

// codeOf is the code of an Erro; "" if err is nil, "?" if it is something else.
func codeOf(err error) string {
	if err == nil {
		return ""
	}
	if bad, ok := errors.AsType[message.Error](err); ok {
		return bad.Code.String()
	}
	return "?"
}

// preauthOf is preauth for any card.
func preauthOf(t testing.TB, e *auth.Engine, acc *account.Account, pan string) string {
	t.Helper()
	crd, _, err := e.Preauth(context.Background(), acc, object{"acctNumber": pan}.json())
	if err != nil {
		t.Fatalf("Preauth: %v", err)
	}
	return parse(t, crd).text("threeDSServerTransID")
}

// told is what an Erro says: its code and its detail.
func told(err error) string {
	if bad, ok := errors.AsType[message.Error](err); ok {
		return bad.Code.String() + " " + bad.Detail
	}
	return fmt.Sprint(err)
}
