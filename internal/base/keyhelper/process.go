package keyhelper

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// endTimeout is how long a process may take to end by itself.
const endTimeout = 2 * time.Second

// A process is one run of the program of a helper.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.Closer // closing it ends read, also while a child of the process keeps the other end
	began time.Time
	said  lastLine // of its standard error
	ended chan struct{}
	end   error // why it has ended; read it when ended is closed

	fault    atomic.Pointer[string] // why this program has ended it
	exchange exchange
}

// start starts a process. It calls noteEnd when the process has ended, before any request fails for that.
func start(command []string, timeout time.Duration, noteEnd func(*process)) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), began: time.Now(), ended: make(chan struct{})}
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
	p.exchange = exchange{
		to: p.in, timeout: timeout, waiting: make(map[uint64]*waiter),
		tooLate: func() { p.kill(fmt.Sprintf("it has not answered within %v", timeout)) },
	}
	go func() {
		if err := p.exchange.read(out); err != nil {
			p.kill(err.Error())
		}
		p.end = p.cmd.Wait()
		noteEnd(p)
		close(p.ended)
	}()
	return p, nil
}

// ask sends a request and returns its answer. If there is none in time, the process is killed.
func (p *process) ask(r *Request) (Answer, error) {
	w, err := p.exchange.send(r)
	if err != nil {
		return Answer{}, err
	}
	select {
	case a := <-w.answer:
		return a, nil
	case <-p.ended:
	}
	p.exchange.stop()
	select {
	case a := <-w.answer: // it has answered, and then ended
		return a, nil
	default:
	}
	if w.isLate.Load() {
		return Answer{}, fmt.Errorf("no answer within %v", p.exchange.timeout)
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
