package linear

import (
	"context"
	"encoding/gob"
	"errors"
	"io"
	"sync"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A message goes between a [Remote] and [Serve].
type message struct {
	ID     int
	Node   int
	Call   Call
	Clock  int64 // 0: a call; else the clock is to be set to this
	Answer Answer
}

// Serve makes the calls that a Remote sends on in, each in a goroutine of its own, until in
// ends. It runs in a process that a fault may kill.
func Serve(in io.Reader, out io.Writer, nodes []store.Store, set func(clock int64)) error {
	var mu sync.Mutex
	answers, calls := gob.NewEncoder(out), gob.NewDecoder(in)
	known := make([]Known, len(nodes))
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		var m message
		switch err := calls.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		wg.Go(func() {
			if m.Clock != 0 {
				set(m.Clock)
			} else {
				m.Answer = m.Call.On(context.Background(), known[m.Node].Of(nodes[m.Node]))
			}
			mu.Lock()
			defer mu.Unlock()
			_ = answers.Encode(m) // it fails if the Remote has ended
		})
	}
}

// A Remote makes calls in another process, which runs Serve. When that process ends, the
// calls that it has not answered, and all later ones, have the outcome Unknown.
type Remote struct {
	mu      sync.Mutex
	calls   *gob.Encoder
	last    int
	waiting map[int]chan message // by id; nil when the process has ended
	ended   chan struct{}
}

// Connect returns a Remote that speaks with a process over its input and output.
func Connect(in io.Writer, out io.Reader) *Remote {
	r := &Remote{calls: gob.NewEncoder(in), waiting: make(map[int]chan message), ended: make(chan struct{})}
	go r.listen(gob.NewDecoder(out))
	return r
}

// listen passes on answers until the output of the process ends.
func (r *Remote) listen(answers *gob.Decoder) {
	for {
		var m message
		if err := answers.Decode(&m); err != nil {
			break
		}
		r.mu.Lock()
		answer := r.waiting[m.ID]
		delete(r.waiting, m.ID)
		r.mu.Unlock()
		answer <- m
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, answer := range r.waiting {
		answer <- message{Answer: lost}
	}
	r.waiting = nil
	close(r.ended)
}

var lost = Answer{Outcome: Unknown, Lost: true, Why: "the process has ended"}

// Do makes a call.
func (r *Remote) Do(_ context.Context, node int, c Call) Answer {
	return r.ask(message{Node: node, Call: c}).Answer
}

// Pass sets the clock.
func (r *Remote) Pass(to int64) error {
	if m := r.ask(message{Clock: to}); m.Answer.Lost {
		return errors.New(m.Answer.Why)
	}
	return nil
}

// Wait waits until the process has closed its output.
func (r *Remote) Wait() { <-r.ended }

func (r *Remote) ask(m message) message {
	answer := make(chan message, 1)
	r.mu.Lock()
	if r.waiting == nil {
		r.mu.Unlock()
		return message{Answer: lost}
	}
	r.last++
	m.ID = r.last
	r.waiting[m.ID] = answer
	err := r.calls.Encode(m)
	r.mu.Unlock()
	if err != nil {
		r.Wait() // the process is ending; listen will answer
	}
	return <-answer
}
