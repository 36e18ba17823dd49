// Package keyhelper uses keys that a process of another program holds, such as one in front of an HSM or a KMS. Make a
// [Helper] with [New]; [Helper.Wrap] and [Helper.Unwrap] are for the keys of files, and [Helper.Signer] for TLS. In a
// server, [Helper.Watch] starts the process again when it has ended, and [Helper.Problem] says what is wrong with it.
//
// The two speak by lines of JSON, on the standard input and output of the process. Docs/operating/hsm.md describes the
// protocol.
package keyhelper

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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
// goroutines may use it. A nil Helper stands for none: it may be closed.
type Helper struct {
	command []string
	timeout time.Duration
	died    chan struct{} // has a value when a process has ended unasked

	mu       sync.Mutex
	current  *process // the last one; nil: none was started
	isClosed bool
	lastID   uint64
	problem  string   // how the last request failed, "" if it did not
	known    *Request // what the helper has answered, and Watch may ask again
	starts   uint64
	counts   map[string]Count
}

// A Count is how many requests of one verb there were.
type Count struct{ All, Failed uint64 }

// New returns a helper that is started by a command, the path of a program and its arguments. A request that is not
// answered within the timeout fails, and the process is ended.
func New(command []string, timeout time.Duration) *Helper {
	return &Helper{command: command, timeout: timeout, died: make(chan struct{}, 1), counts: make(map[string]Count)}
}

// Wrap returns a key encrypted under the key with a label, bound to a context.
func (h *Helper) Wrap(label string, key []byte, context string) ([]byte, error) {
	return h.call(Request{Verb: Wrap, Key: label, Data: key, Context: context})
}

// Unwrap returns what Wrap has encrypted for the same label and context.
func (h *Helper) Unwrap(label string, wrapped []byte, context string) ([]byte, error) {
	return h.call(Request{Verb: Unwrap, Key: label, Data: wrapped, Context: context})
}

// errEnded says that the process has ended before it answered.
var errEnded = errors.New("the process has ended")

// call sends a request and returns the data of its answer. A request whose process ends is sent again once.
func (h *Helper) call(r Request) ([]byte, error) {
	data, err := h.try(r)
	if errors.Is(err, errEnded) {
		data, err = h.try(r)
	}
	if err != nil {
		err = fmt.Errorf("key helper %s: %s with key %q: %w", h.name(), r.Verb, r.Key, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	count := h.counts[r.Verb]
	count.All++
	h.problem = ""
	switch {
	case err != nil:
		count.Failed++
		h.problem = err.Error()
	case r.Verb == Public, r.Verb == Unwrap && (h.known == nil || h.known.Verb != Public):
		h.known = &r
	}
	h.counts[r.Verb] = count
	return data, err
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
	answer, err := p.ask(&r, h.timeout)
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
		case !p.hasAnswered.Load() && time.Since(p.began) < startInterval:
			return nil, p.reason()
		}
	}
	p, err := start(h.command, h.noteEnd)
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
	h.problem = fmt.Sprintf("key helper %s: %v", h.name(), p.reason())
	select {
	case h.died <- struct{}{}:
	default: // Watch has not seen an earlier end yet
	}
}

// Watch asks the helper from time to time for what it has answered before, and immediately when its process has ended,
// which starts it again. It returns when ctx ends.
func (h *Helper) Watch(ctx context.Context) {
	timer := time.NewTimer(probeInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.died:
		case <-timer.C:
		}
		h.mu.Lock()
		known := h.known
		h.mu.Unlock()
		wait := probeInterval
		if known != nil {
			answered := make(chan error, 1)
			go func() {
				data, err := h.call(*known)
				clear(data)
				answered <- err
			}()
			select {
			case <-ctx.Done():
				return // Close ends the process, and with it the request
			case err := <-answered:
				if err != nil {
					wait = retryInterval
				}
			}
		}
		timer.Reset(wait)
	}
}

// Problem says what is wrong with the helper: how the last request failed, or that its process has ended since. It
// returns "" when all is well.
func (h *Helper) Problem() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.problem
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
