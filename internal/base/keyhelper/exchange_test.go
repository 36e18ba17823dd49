package keyhelper

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A scripted process answers requests as a test says, over pipes.
type scripted struct {
	exchange
	answers io.WriteCloser
	late    atomic.Bool // a request was not answered in time
	done    sync.WaitGroup
}

// newScripted starts a process that calls answer for each request, one after the other. To answer a request, answer
// calls reply with its id.
func newScripted(timeout time.Duration, answer func(id uint64, reply func(uint64))) *scripted {
	toProcess, requests := io.Pipe()
	out, answers := io.Pipe()
	s := &scripted{answers: answers}
	s.exchange = exchange{to: requests, timeout: timeout, waiting: make(map[uint64]*waiter), tooLate: func() { s.late.Store(true) }}
	var handed sync.Mutex
	var queue []uint64
	arrived := make(chan struct{}, 100)
	s.done.Go(func() { _ = s.exchange.read(out) })
	s.done.Go(func() { // a pipe of the system has room for many requests
		defer close(arrived)
		for lines := bufio.NewScanner(toProcess); lines.Scan(); {
			var r Request
			_ = json.Unmarshal(lines.Bytes(), &r)
			handed.Lock()
			queue = append(queue, r.ID)
			handed.Unlock()
			arrived <- struct{}{}
		}
	})
	s.done.Go(func() {
		for range arrived {
			handed.Lock()
			id := queue[0]
			queue = queue[1:]
			handed.Unlock()
			answer(id, func(id uint64) {
				line, _ := json.Marshal(Answer{ID: id, Data: []byte{1}})
				_, _ = answers.Write(append(line, '\n'))
			})
		}
	})
	return s
}

// end ends the process.
func (s *scripted) end() {
	_ = s.to.(io.Closer).Close()
	_ = s.answers.Close()
	s.done.Wait()
	s.stop()
}

// TestK8TimeInTheQueueDoesNotCount: a process that does one request after the other, each in less than the timeout, is
// well, however many requests wait for it.
func TestK8TimeInTheQueueDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(5*time.Second, func(id uint64, reply func(uint64)) {
			time.Sleep(3 * time.Second)
			reply(id)
		})
		defer s.end()
		var all sync.WaitGroup
		for id := range uint64(10) {
			w, err := s.send(&Request{ID: id + 1, Verb: Sign})
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() { <-w.answer })
		}
		all.Wait()
		if s.late.Load() {
			t.Error("a process that answers every 3 s is too late for a timeout of 5 s")
		}
	})
}

// TestK8RequestThatIsNeverAnsweredIsLate: also when the process goes on with what came later.
func TestK8RequestThatIsNeverAnsweredIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lost = 2
		s := newScripted(5*time.Second, func(id uint64, reply func(uint64)) {
			if id != lost {
				time.Sleep(time.Second)
				reply(id)
			}
		})
		defer s.end()
		var forgotten *waiter
		for id := range uint64(10) {
			w, err := s.send(&Request{ID: id + 1, Verb: Sign})
			if err != nil {
				t.Fatal(err)
			}
			if id+1 == lost {
				forgotten = w
			}
		}
		time.Sleep(5*time.Second + 999*time.Millisecond) // the request before it was answered after a second
		synctest.Wait()
		if s.late.Load() {
			t.Error("it is late before its time is over")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !s.late.Load() || !forgotten.isLate.Load() {
			t.Error("a request that is never answered is not late")
		}
	})
}
