package keyhelper

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxLine is how long an answer may be, in bytes.
	maxLine = 64 << 10

	// endTimeout is how long a process may take to end by itself.
	endTimeout = 2 * time.Second
)

// A process is one run of the program of a helper.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.Closer // closing it ends read, also while a child of the process keeps the other end
	began time.Time
	said  lastLine // of its standard error
	ended chan struct{}
	end   error // why it has ended; read it when ended is closed

	hasAnswered atomic.Bool
	fault       atomic.Pointer[string] // why this program has ended it

	writing sync.Mutex
	mu      sync.Mutex
	waiting map[uint64]chan Answer // by the ids of requests
}

// start starts a process. It calls noteEnd when the process has ended, before any request fails for that.
func start(command []string, noteEnd func(*process)) (*process, error) {
	p := &process{
		cmd: exec.Command(command[0], command[1:]...), began: time.Now(), ended: make(chan struct{}),
		waiting: make(map[uint64]chan Answer),
	}
	p.cmd.Stderr = &p.said
	p.cmd.WaitDelay = endTimeout // children of it may keep its standard error open
	separate(p.cmd)
	var out io.ReadCloser
	var err error
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		out, err = p.cmd.StdoutPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("the process cannot be started: %w", err)
	}
	p.out = out
	go func() {
		if err := p.read(out); err != nil {
			p.kill(err.Error())
		}
		p.end = p.cmd.Wait()
		noteEnd(p)
		close(p.ended)
	}()
	return p, nil
}

// read hands answers to who waits for them, until the output ends.
func (p *process) read(out io.Reader) error {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var a Answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return errors.New("it has written a line that is no answer in JSON")
		}
		p.mu.Lock()
		to := p.waiting[a.ID]
		delete(p.waiting, a.ID)
		p.mu.Unlock()
		if to == nil {
			return errors.New("it has answered a request that there was not")
		}
		p.hasAnswered.Store(true)
		to <- a
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("it has written a line of more than %d bytes", maxLine)
	}
	return nil // what else may be wrong with a pipe comes with the end of the process
}

// ask sends a request and returns its answer. If there is none within the timeout, the process is killed.
func (p *process) ask(r *Request, timeout time.Duration) (Answer, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return Answer{}, err
	}
	to := make(chan Answer, 1)
	p.mu.Lock()
	p.waiting[r.ID] = to
	p.mu.Unlock()
	var isLate atomic.Bool
	timer := time.AfterFunc(timeout, func() {
		isLate.Store(true)
		p.kill(fmt.Sprintf("it has not answered within %v", timeout))
	})
	defer timer.Stop()
	p.writing.Lock()
	_, _ = p.in.Write(append(line, '\n')) // an error means that the process ends
	p.writing.Unlock()
	clear(line)
	select {
	case a := <-to:
		return a, nil
	case <-p.ended:
	}
	select {
	case a := <-to: // it has answered, and then ended
		return a, nil
	default:
	}
	if isLate.Load() {
		return Answer{}, fmt.Errorf("no answer within %v", timeout)
	}
	return Answer{}, p.reason()
}

// reason says why the process has ended.
func (p *process) reason() error {
	why := "exit status 0"
	if text := p.fault.Load(); text != nil {
		why = *text
	} else if p.end != nil {
		why = p.end.Error()
	}
	if text := p.said.String(); text != "" {
		why += ", after it had said: " + text
	}
	return fmt.Errorf("%w: %s", errEnded, why)
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// kill ends the process, and those that it has started, because of a fault.
func (p *process) kill(fault string) {
	p.fault.CompareAndSwap(nil, &fault)
	if p.hasEnded() {
		return // its number may be that of another process by now
	}
	killAll(p.cmd)
	_ = p.out.Close() // what is not read any more is of no use
}

// close ends the input of the process, waits for its end, and kills it if that takes too long.
func (p *process) close() {
	_ = p.in.Close()
	timer := time.AfterFunc(endTimeout, func() { p.kill("it did not end with its input") })
	defer timer.Stop()
	<-p.ended
}

// A lastLine remembers the last line that was written to it.
type lastLine struct {
	mu   sync.Mutex
	line []byte // what was written of the present line
	last string // the line before
}

// Write remembers what is written. It keeps the beginning of a long line.
func (l *lastLine) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for part := range bytes.Lines(data) {
		text, isWhole := bytes.CutSuffix(part, []byte{'\n'})
		if room := 4*maxText - len(l.line); room > 0 {
			l.line = append(l.line, text[:min(len(text), room)]...)
		}
		if isWhole {
			if line := bytes.TrimSpace(l.line); len(line) > 0 {
				l.last = string(line)
			}
			l.line = l.line[:0]
		}
	}
	return len(data), nil
}

func (l *lastLine) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line := bytes.TrimSpace(l.line); len(line) > 0 {
		return printable(string(line))
	}
	return printable(l.last)
}
