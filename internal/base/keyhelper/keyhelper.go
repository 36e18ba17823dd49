// Package keyhelper uses keys that a process of another program holds, such as one in front of an HSM or a KMS. Make a
// [Helper] with [New]; [Helper.Wrap] and [Helper.Unwrap] are for the keys of files, and [Helper.Signer] for TLS. In a
// server, [Helper.Watch] starts the process again when it has ended, and [Helper.Problem] says what is wrong with it.
//
// The two speak by lines of JSON, on the standard input and output of the process. Docs/operating/hsm.md describes the
// protocol.
package keyhelper

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// The verbs of requests.
const (
	Wrap   = "wrap"
	Unwrap = "unwrap"
	Public = "public"
	Sign   = "sign"
)

// Verbs returns all verbs of requests.
func Verbs() []string { return []string{Wrap, Unwrap, Public, Sign} }

const (
	// startInterval is how soon after its start a process that has answered nothing is started again.
	startInterval = time.Second

	// probeInterval is how often Watch asks a helper that is well.
	probeInterval = 30 * time.Second

	// retryInterval is how often Watch asks a helper that is not well.
	retryInterval = 2 * time.Second

	// maxText is how long a text of a helper may be in an error, in characters.
	maxText = 200
)

// A Request is a line that the helper reads.
type Request struct {
	ID      uint64 `json:"id"`
	Verb    string `json:"verb"`
	Key     string `json:"key"`               // the label of the key that is to be used
	Data    []byte `json:"data,omitempty"`    // what is to be wrapped or unwrapped, or the digest to be signed
	Context string `json:"context,omitempty"` // what a wrapped key is bound to
	Hash    string `json:"hash,omitempty"`    // what has made the digest, such as SHA-256
	Scheme  string `json:"scheme,omitempty"`  // of the signature: one of RSAPSS, RSAPKCS1 and ECDSA
}

// An Answer is a line that the helper writes for a request. Error is empty if it did what was asked.
type Answer struct {
	ID    uint64 `json:"id"`
	Data  []byte `json:"data,omitempty"`
	Error string `json:"error,omitempty"`
}

// A Helper is a process that holds keys. It is started when it is first asked, and again when it has ended. Many
// goroutines may use it. A nil Helper stands for none: nothing has failed, and it may be closed.
type Helper struct {
	command []string
	timeout time.Duration
	died    chan struct{} // has a value when a process has ended unasked
	failed  chan struct{} // has a value when a request has failed

	mu       sync.Mutex
	current  *process // the last one; nil: none was started
	isClosed bool
	lastID   uint64
	ended    string // how a process has ended; "" when a request was answered since
	probes   map[use]probe
	kept     map[string]bool // the keys of Keep; nil means that it was not called
	starts   uint64
	counts   map[string]Count
}

// A use is what requests of one verb do with one key.
type use struct{ key, verb string }

// A probe is a request that shows whether a use of a key works.
type probe struct {
	request Request
	check   func(data []byte) error // says what is wrong with the data of an answer; nil means nothing
	problem string                  // how the last request has failed; "" if it did not
}

// A Count is how many requests of one verb there were.
type Count struct{ All, Failed uint64 }

// New returns a helper that is started by a command, the path of a program and its arguments. A request that is not
// answered within the timeout fails, and the process is ended. The time begins when the process has answered what it
// was handed before: it may do one request after the other.
func New(command []string, timeout time.Duration) *Helper {
	return &Helper{
		command: command, timeout: timeout, died: make(chan struct{}, 1), failed: make(chan struct{}, 1),
		probes: make(map[use]probe), counts: make(map[string]Count),
	}
}

// Wrap returns a key encrypted under the key with a label, bound to a context.
func (h *Helper) Wrap(label string, key []byte, context string) ([]byte, error) {
	return h.call(Request{Verb: Wrap, Key: label, Data: key, Context: context}, nil)
}

// Unwrap returns what Wrap has encrypted for the same label and context.
func (h *Helper) Unwrap(label string, wrapped []byte, context string) ([]byte, error) {
	return h.call(Request{Verb: Unwrap, Key: label, Data: wrapped, Context: context}, nil)
}

// errEnded says that the process has ended before it answered.
var errEnded = errors.New("the process has ended")

// call sends a request and returns the data of its answer, which check accepts. A nil check accepts all. A request
// whose process ends is sent again once.
func (h *Helper) call(r Request, check func(data []byte) error) ([]byte, error) {
	data, err := h.ask(r, check, false)
	if err != nil {
		select {
		case h.failed <- struct{}{}:
		default: // Watch has not seen an earlier failure yet
		}
	}
	return data, err
}

// ask is call without word to Watch, which repeats requests by it.
func (h *Helper) ask(r Request, check func(data []byte) error, isRepeated bool) ([]byte, error) {
	data, err := h.try(r)
	if errors.Is(err, errEnded) {
		data, err = h.try(r)
	}
	if err == nil && check != nil {
		err = check(data)
	}
	h.note(r, check, err, isRepeated)
	if err != nil {
		return nil, fmt.Errorf("key helper %s: %s: %w", h.name(), r.use(), err)
	}
	return data, nil
}

func (r *Request) use() use { return use{r.Key, r.Verb} }

// String names the use in errors.
func (u use) String() string { return fmt.Sprintf("%s with key %q", u.verb, u.key) }

// note counts a request, and keeps what says how its key is. One that was repeated says nothing if Keep has forgotten
// it meanwhile.
func (h *Helper) note(r Request, check func(data []byte) error, err error, isRepeated bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	count := h.counts[r.Verb]
	count.All++
	if err != nil {
		count.Failed++
	} else {
		h.ended = ""
	}
	h.counts[r.Verb] = count
	_, isKnown := h.probes[r.use()]
	switch isRead := r.Verb == Public || r.Verb == Unwrap; {
	case isRepeated && !isKnown:
	case !isRead && err == nil:
		delete(h.probes, r.use()) // only what reads is repeated while all is well
	case !isRead && h.kept != nil && !h.kept[r.Key]: // a connection of a configuration that is not in use any more
	default:
		p := probe{request: r, check: check}
		p.request.Data = bytes.Clone(r.Data)
		if r.Verb == Wrap {
			clear(p.request.Data) // the data are a key, which must not be kept; zeros test the helper as well
		}
		if err != nil {
			p.problem = err.Error()
		}
		h.probes[r.use()] = p
	}
}

// Keep forgets what it knows of keys that are not among the labels: they are in use no more, and need not be there.
func (h *Helper) Keep(labels []string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = make(map[string]bool, len(labels))
	for _, label := range labels {
		h.kept[label] = true
	}
	maps.DeleteFunc(h.probes, func(u use, _ probe) bool { return !h.kept[u.key] })
}

// try sends a request once, to a process that is started if there is none.
func (h *Helper) try(r Request) ([]byte, error) {
	p, err := h.running()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.lastID++
	r.ID = h.lastID
	h.mu.Unlock()
	answer, err := p.ask(&r)
	switch {
	case err != nil:
		return nil, err
	case answer.Error != "":
		return nil, errors.New(printable(answer.Error))
	case len(answer.Data) == 0:
		return nil, errors.New("the answer has neither data nor error")
	}
	return answer.Data, nil
}

// running returns a process that runs.
func (h *Helper) running() (*process, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isClosed {
		return nil, errors.New("this program is ending")
	}
	if p := h.current; p != nil {
		switch {
		case !p.hasEnded():
			return p, nil
		case !p.exchange.hasAnswered.Load() && time.Since(p.began) < startInterval:
			return nil, p.reason()
		}
	}
	p, err := start(h.command, h.timeout, h.noteEnd)
	if err != nil {
		return nil, err
	}
	h.current = p
	h.starts++
	return p, nil
}

// noteEnd notes that a process has ended.
func (h *Helper) noteEnd(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isClosed {
		return
	}
	h.ended = p.reason().Error()
	select {
	case h.died <- struct{}{}:
	default: // Watch has not seen an earlier end yet
	}
}

// Watch repeats requests that show how each key is: all of them every 30 s, and every 2 s those that fail. When the
// process has ended it does so immediately, which starts it again. It returns when ctx ends.
func (h *Helper) Watch(ctx context.Context) {
	timer := time.NewTimer(probeInterval)
	defer timer.Stop()
	var asked time.Time // when all keys were
	for isWell := true; ; {
		select {
		case <-ctx.Done():
			return
		case <-h.failed:
			if isWell {
				timer.Reset(retryInterval)
			}
			isWell = false
			continue
		case <-h.died:
		case <-timer.C:
		}
		isAll := time.Since(asked) >= probeInterval
		if isAll {
			asked = time.Now()
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			h.repeat(isAll)
		}()
		select {
		case <-ctx.Done():
			return // Close ends the process, and with it the request
		case <-answered:
		}
		wait := probeInterval
		if isWell = h.Problem() == ""; !isWell {
			wait = retryInterval
		}
		timer.Reset(wait)
	}
}

// repeat sends the requests again that show how keys are: all of them, or those that have failed. When the process has
// ended it sends all, which starts it again.
func (h *Helper) repeat(isAll bool) {
	h.mu.Lock()
	var due []probe
	for _, p := range h.probes {
		if isAll || p.problem != "" || h.ended != "" {
			due = append(due, p)
		}
	}
	h.mu.Unlock()
	for _, p := range due {
		data, _ := h.ask(p.request, p.check, true) // what fails is noted
		clear(data)
	}
}

// Problem says what is wrong with the helper: which uses of keys fail, and why, or that its process has ended since the
// last answer. It returns "" when all is well.
func (h *Helper) Problem() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var why []string
	failing := map[string][]string{}
	for _, u := range slices.SortedFunc(maps.Keys(h.probes), compareUses) {
		if text := h.probes[u].problem; text != "" {
			if failing[text] == nil {
				why = append(why, text)
			}
			failing[text] = append(failing[text], u.String())
		}
	}
	if len(why) == 0 && h.ended == "" {
		return ""
	}
	text := "key helper " + h.name() + ": "
	if len(why) == 0 {
		return text + h.ended
	}
	for i, cause := range why {
		why[i] = strings.Join(failing[cause], ", ") + ": " + cause
	}
	return text + strings.Join(why, "; ")
}

func compareUses(a, b use) int {
	return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.verb, b.verb))
}

// Keys reports for each key that was used whether all that is known of it is well.
func (h *Helper) Keys() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[string]bool)
	for u, p := range h.probes {
		isWell, isThere := all[u.key]
		all[u.key] = p.problem == "" && (isWell || !isThere)
	}
	return all
}

// Starts returns how often a process was started.
func (h *Helper) Starts() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.starts
}

// Counts returns how many requests of a verb there were.
func (h *Helper) Counts(verb string) Count {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts[verb]
}

// Failures returns how many requests have failed, of all verbs.
func (h *Helper) Failures() (n uint64) {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, count := range h.counts {
		n += count.Failed
	}
	return n
}

// Close ends the process, by the end of its input. Later requests fail.
func (h *Helper) Close() {
	if h == nil {
		return
	}
	h.mu.Lock()
	h.isClosed = true
	p := h.current
	h.mu.Unlock()
	if p != nil {
		p.close()
	}
}

// name is how errors call the helper. Arguments may have secrets.
func (h *Helper) name() string { return filepath.Base(h.command[0]) }

// printable returns a text of a helper as an error may have it: in one line, and not long.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.TrimSpace(text))
	if all := []rune(text); len(all) > maxText {
		text = string(all[:maxText]) + "…"
	}
	return text
}
