package listen_test

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/edge/listen"
)

// readyListener has a connection at any time.
type readyListener struct{ net.Listener }

func (readyListener) Accept() (net.Conn, error) {
	server, client := net.Pipe()
	_ = client.Close()
	return server, nil
}

// TestPacedListenerAcceptsSlowlyUnderOverload: it accepts 500 connections a second during overload, and without any
// delay before and after.
func TestPacedListenerAcceptsSlowlyUnderOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var overloaded atomic.Bool
		paced := listen.Pace(readyListener{}, overloaded.Load)
		for _, step := range []struct {
			overloaded bool
			want       time.Duration
		}{{false, 0}, {true, time.Second}, {false, 0}} {
			overloaded.Store(step.overloaded)
			start := time.Now()
			for range 500 {
				c, err := paced.Accept()
				if err != nil {
					t.Fatal(err)
				}
				_ = c.Close()
			}
			if took := time.Since(start); took != step.want {
				t.Errorf("overload %v: 500 connections took %v, want %v", step.overloaded, took, step.want)
			}
		}
	})
}
