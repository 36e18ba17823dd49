package api_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/state/account"
)

// only is the one key that is known; "" is none.
type only string

func (o only) Authenticate(_ context.Context, key string) (*account.Account, error) {
	if key == "" || key != string(o) {
		return nil, account.ErrUnknownKey
	}
	return &account.Account{Merchant: new(account.Merchant)}, nil
}

// Types of frames of HTTP/2.
const (
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	frameGoAway   = 7
)

// frame is one of HTTP/2.
func frame(kind, flags byte, stream uint32, payload ...byte) []byte {
	n := len(payload)
	head := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	return append(binary.BigEndian.AppendUint32(head, stream), payload...)
}

// A stranger is a client of HTTP/2 that counts the frames it is sent, by type.
type stranger struct {
	*tls.Conn
	saw  [256]atomic.Int64
	gone atomic.Uint32 // the code of a farewell, and one more
}

// knock connects, with the settings given.
func knock(t *testing.T, to pipes, server *tls.Config, settings ...byte) *stranger {
	t.Helper()
	near, far := net.Pipe()
	to <- tls.Server(far, server)
	s := &stranger{Conn: tls.Client(near, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})}
	if err := s.Handshake(); err != nil {
		t.Fatal(err)
	}
	go s.read()
	if _, err := s.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(frameSettings, 0, 0, settings...)...)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stranger) read() {
	var head [9]byte
	for {
		if _, err := io.ReadFull(s, head[:]); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(s, payload); err != nil {
			return
		}
		if head[3] == frameGoAway {
			s.gone.Store(binary.BigEndian.Uint32(payload[4:]) + 1)
		}
		s.saw[head[3]].Add(1)
	}
}

// ask sends so many requests that are complete and have no key.
func (s *stranger) ask(t *testing.T, first uint32, n int) {
	t.Helper()
	request := []byte{0x83, 0x87, 0x84, 0x41, 1, 'x'} // POST https / of x
	for i := range n {
		const whole = 0x5
		if _, err := s.Write(frame(frameHeaders, whole, first+2*uint32(i), request...)); err != nil {
			t.Fatal(err)
		}
	}
}

// secure is what a listener of HTTP/2 needs. It is made outside of a bubble.
func secure(t *testing.T) *tls.Config {
	t.Helper()
	template := httptest.NewUnstartedServer(nil)
	template.StartTLS()
	defer template.Close()
	return &tls.Config{Certificates: template.TLS.Certificates, NextProtos: []string{"h2"}, SessionTicketsDisabled: true}
}

// TestWaitingRefusalsHTTP2: clients that are refused, ask again and again and read no answer hold a bounded number of
// requests, for a bounded time. Afterwards everything is as before.
func TestWaitingRefusalsHTTP2(t *testing.T) {
	for name, h := range map[string]*api.Handler{
		"without a key":         {Keys: only("")},
		"for what is not there": {Keys: anyone{}},
	} {
		t.Run(name, func(t *testing.T) { untaken(t, h) })
	}
}

func untaken(t *testing.T, h *api.Handler) {
	config := secure(t)
	synctest.Test(t, func(t *testing.T) {
		const each, conns, most = 100, 50, 4096
		log, l := slog.New(slog.DiscardHandler), make(pipes)
		h.Log = log
		server := listen.NewServer(h, 10*time.Second, log)
		ended := make(chan error)
		go func() { ended <- server.Serve(l) }()
		defer func() {
			close(l)
			_ = server.Close()
			<-ended
		}()
		noWindow := []byte{0, 4, 0, 0, 0, 0} // SETTINGS_INITIAL_WINDOW_SIZE
		var all []*stranger
		for range conns {
			s := knock(t, l, config, noWindow...)
			defer s.NetConn().Close()
			s.ask(t, 1, each)
			all = append(all, s)
		}
		count := func(kind int) (n int64) {
			for _, s := range all {
				n += s.saw[kind].Load()
			}
			return n
		}
		synctest.Wait()
		if began, ended := count(frameHeaders), count(frameReset); began != most || ended != conns*each-most {
			t.Errorf("of %d requests %d answers wait and %d are ended, want %d and the rest", conns*each, began, ended, most)
		}
		time.Sleep(listen.RequestTime)
		synctest.Wait()
		if ended := count(frameReset); ended != conns*each {
			t.Errorf("in the end %d of %d requests are ended", ended, conns*each)
		}
		s := knock(t, l, config)
		defer s.NetConn().Close()
		s.ask(t, 1, each)
		synctest.Wait()
		if began, data := s.saw[frameHeaders].Load(), s.saw[frameData].Load(); began != each || data < each {
			t.Errorf("then %d requests of somebody who reads have %d headers and %d pieces of answers", each, began, data)
		}
	})
}

// TestConcurrentStreamsHTTP2: a connection may have a hundred requests at once; one more is ended.
func TestConcurrentStreamsHTTP2(t *testing.T) {
	config := secure(t)
	synctest.Test(t, func(t *testing.T) {
		l := serving(t, time.Second)
		const most = 100
		for n := int64(most - 1); n <= most+1; n++ {
			s := knock(t, l, config, 0, 4, 0, 0, 0, 0) // takes no answer
			defer s.NetConn().Close()
			s.ask(t, 1, int(n))
			synctest.Wait()
			if began, ended := s.saw[frameHeaders].Load(), s.saw[frameReset].Load(); began != min(n, most) || ended != n-began {
				t.Errorf("%d requests at once: %d have an answer and %d are ended, want %d and the rest", n, began, ended, min(n, most))
			}
		}
	})
}

// TestLongFramesHTTP2: what a connection keeps memory for is not longer than a header may be.
func TestLongFramesHTTP2(t *testing.T) {
	config := secure(t)
	synctest.Test(t, func(t *testing.T) {
		l := serving(t, time.Second)
		const unknown, tooLong = 0x77, 6
		for _, length := range []int{16 << 10, 16<<10 + 1} {
			s := knock(t, l, config)
			defer s.NetConn().Close()
			long := frame(unknown, 0, 0, bytes.Repeat([]byte{0}, length)...)
			if _, err := s.Write(long[:9]); err != nil { // its beginning alone
				t.Fatal(err)
			}
			synctest.Wait()
			if refused := s.gone.Load() == tooLong+1; refused != (length > 16<<10) {
				t.Errorf("a frame of %d bytes is refused: %v", length, refused)
			}
		}
		time.Sleep(2 * time.Second) // the server leaves a farewell some time
	})
}
