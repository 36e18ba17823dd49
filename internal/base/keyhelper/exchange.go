package keyhelper

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// maxLine is how long an answer may be, in bytes.
const maxLine = 64 << 10

// An exchange has the requests that a process was handed and has not answered. Each has to be answered within a
// timeout. A process may do one request after the other, so the time of a request begins when the process has answered
// those that it was handed before.
type exchange struct {
	to      io.Writer
	timeout time.Duration
	tooLate func() // is called when a request is not answered in time

	writing sync.Mutex // is held while a request is handed over; the others wait for it without a timeout
	mu      sync.Mutex
	waiting map[uint64]*waiter // by the ids of requests
	handed  uint64             // how many requests there were

	hasAnswered atomic.Bool
}

// A waiter waits for the answer to one request.
type waiter struct {
	answer chan Answer
	place  uint64 // the number of the request: the first one that the process was handed has 1
	timer  *time.Timer
	isLate atomic.Bool
}

// send hands a request to the process.
func (x *exchange) send(r *Request) (*waiter, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	defer clear(line)
	x.writing.Lock()
	defer x.writing.Unlock()
	w := x.add(r.ID)
	_, _ = x.to.Write(append(line, '\n')) // an error means that the process ends
	return w, nil
}

// add notes that a request is handed over.
func (x *exchange) add(id uint64) *waiter {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.handed++
	w := &waiter{answer: make(chan Answer, 1), place: x.handed}
	w.timer = time.AfterFunc(x.timeout, func() {
		w.isLate.Store(true)
		x.tooLate()
	})
	x.waiting[id] = w
	return w
}

// endWait removes and returns who waits for the answer to a request, nil if there is none. The time of those that were
// handed over later begins now.
func (x *exchange) endWait(id uint64) *waiter {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := x.waiting[id]
	if w == nil {
		return nil
	}
	delete(x.waiting, id)
	w.timer.Stop()
	for _, other := range x.waiting {
		if other.place > w.place {
			other.timer.Reset(x.timeout)
		}
	}
	return w
}

// stop ends the time of all requests, when the process has ended.
func (x *exchange) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, w := range x.waiting {
		w.timer.Stop()
	}
}

// read hands answers to who waits for them, until the output of the process ends.
func (x *exchange) read(out io.Reader) error {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var a Answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return errors.New("it has written a line that is no answer in JSON")
		}
		w := x.endWait(a.ID)
		if w == nil {
			return errors.New("it has answered a request that there was not")
		}
		x.hasAnswered.Store(true)
		w.answer <- a
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("it has written a line of more than %d bytes", maxLine)
	}
	return nil // what else may be wrong with a pipe comes with the end of the process
}
