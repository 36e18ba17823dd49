package api

import (
	"time"

	"github.com/openthreeds/threeds/internal/run/server"
)

// quickly makes the MPI's patience short.
func quickly(cfg *server.Config) {
	for i := range cfg.V1Peers {
		cfg.V1Peers[i].Timeout = 3 * time.Second
	}
}
