package sandbox

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/openthreeds/threeds/sandbox/internal/cards"
	"github.com/openthreeds/threeds/sandbox/internal/pki"
)

// sharedDirectories is one listener for all directory servers of EMV 3-D Secure, by path.
type sharedDirectories struct {
	url string
	mux *http.ServeMux
}

func newSharedDirectories(s *Sandbox) (*sharedDirectories, error) {
	names := slices.Clone(s.certs.hosts)
	for _, of := range cards.Schemes() {
		names = append(names, of.ServerName())
	}
	server, err := s.certs.directories.Issue("ds.sandbox.test", names...)
	if err != nil {
		return nil, err
	}
	d := &sharedDirectories{mux: http.NewServeMux()}
	l, err := s.listenAt(s.DirectoriesListen, d.mux, pki.MutualTLS(server, s.certs.servers))
	if err != nil {
		return nil, fmt.Errorf("listener of the directory servers: %w", err)
	}
	d.url = l.url
	return d, nil
}

// add serves a directory server below the word of its scheme, and returns its URL.
func (d *sharedDirectories) add(one *directory) string {
	path := "/" + one.scheme.Word
	d.mux.Handle(path+"/", http.StripPrefix(path, one))
	return d.url + path + "/"
}
